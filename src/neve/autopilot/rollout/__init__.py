"""Rollout of a layout: stage it on a branch, compare queries in a canary, merge it into main, or roll it back."""
