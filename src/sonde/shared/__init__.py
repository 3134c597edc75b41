"""One index for a team: Lance tables at a URL, pushed by CI, read by laptops and servers."""
