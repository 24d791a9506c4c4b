package coord

import "time"

// NextVersion returns the version that follows the version last of something that is changed at a time: the time in
// microseconds since 1970, or last + 1 if that is more. A coordinator that is restored from a copy does not know the
// changes that followed the copy. A counter would give their versions to other changes.
func NextVersion(last uint64, now time.Time) uint64 {
	return max(last+1, uint64(max(0, now.UnixMicro())))
}
