// Keeps a room's library valid while it holds headers only.
