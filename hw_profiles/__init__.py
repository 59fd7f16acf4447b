"""The chips and the products built from them, as data; installed as `npusim.hw_profiles`."""
