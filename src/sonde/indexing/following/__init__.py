"""Keeping an index current: watcher, strategies, leader and followers."""
