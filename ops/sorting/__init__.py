"""Order: running extremes, where the largest element is, the k largest, what is there at all."""
