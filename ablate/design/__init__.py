"""What a study is: a grid file, its arms and factors, and the trials that follow from them."""
