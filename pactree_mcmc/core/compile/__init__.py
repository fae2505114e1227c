"""How functions are compiled, linked and kept between processes."""
