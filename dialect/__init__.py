"""What a sharding is: values, their notations, and their codecs. Imports nothing else of gspmd."""
