"""What an export writes: request, target, manifest, progress, and the hold on the log. May import options and stores."""
