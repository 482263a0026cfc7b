"""The examinations of the pieces around attention: head splits, mask builders, softmaxes."""
