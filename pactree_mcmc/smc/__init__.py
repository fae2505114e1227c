"""The progressive mixture by Monte Carlo: sequential Monte Carlo over trees while the rows of S enter one by one."""
