package calendar

import (
	"crypto/sha256"
	"encoding/binary"
)

// spread returns the number from 0 to n-1 that H stands for in a field: the first eight bytes of
// SHA-256 of name, a line feed and the name of the field, as a big-endian number, modulo n. It
// never changes, because schedules would move.
func spread(name, field string, n int) int {
	sum := sha256.Sum256([]byte(name + "\n" + field))
	return int(binary.BigEndian.Uint64(sum[:]) % uint64(n))
}
