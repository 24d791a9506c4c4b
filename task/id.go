package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// ID identifies a task or one incarnation of a node. An id is never used again. IDs made by [IDs]
// are UUIDs of version 7 (RFC 9562): they sort by the time at which they were made, which keeps
// inserts sequential in every store. The zero ID identifies nothing.
type ID [16]byte

// ErrBadID is returned by [ParseID] for text that is not a UUID.
var ErrBadID = errors.New("not a task id (want a UUID such as 0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69)")

// ParseID reads the canonical textual form of a UUID, in either case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, fmt.Errorf("%.40q: %w", s, ErrBadID)
	}
	var digits [32]byte
	n := copy(digits[:], s[:8])
	n += copy(digits[n:], s[9:13])
	n += copy(digits[n:], s[14:18])
	n += copy(digits[n:], s[19:23])
	copy(digits[n:], s[24:])
	if _, err := hex.Decode(id[:], digits[:]); err != nil {
		return ID{}, fmt.Errorf("%.40q: %w", s, ErrBadID)
	}
	return id, nil
}

// String returns the canonical textual form, 36 lower-case characters.
func (id ID) String() string {
	b, _ := id.AppendText(make([]byte, 0, 36))
	return string(b)
}

// AppendText appends the canonical textual form to b. It never fails.
func (id ID) AppendText(b []byte) ([]byte, error) {
	b = hex.AppendEncode(b, id[:4])
	for _, part := range [][]byte{id[4:6], id[6:8], id[8:10], id[10:]} {
		b = append(b, '-')
		b = hex.AppendEncode(b, part)
	}
	return b, nil
}

// MarshalText implements [encoding.TextMarshaler].
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// IsZero reports whether id identifies nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids bytewise. For version 7 that is the order in which they were made.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// Child returns the id of what follows from the task id at a time, by a name that tells apart what
// follows at the same time, such as one fire of a schedule. The same arguments give the same id, so
// that a task that is added twice under it exists once. It is a UUID of version 8 (RFC 9562): the
// milliseconds of at, as in version 7, and then a part of the SHA-256 of id, at in Unix
// microseconds and name. It is in the shard of id, see [ID.Shard].
func (id ID) Child(at time.Time, name string) ID {
	h := sha256.New()
	h.Write(id[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro())))
	h.Write([]byte(name))
	sum := h.Sum(nil)

	var child ID
	ms := uint64(max(0, at.UnixMilli()))
	for i := range 6 {
		child[i] = byte(ms >> (8 * (5 - i)))
	}
	copy(child[6:], sum)
	child[6] = child[6]&0x0f | 0x80
	child[8] = child[8]&0x3f | 0x80
	return child.in(id.Shard())
}

// IDs makes version 7 UUIDs that strictly increase, whatever the clock does. The twelve bits after
// the millisecond hold the fraction of it (RFC 9562, section 6.2, method 3). While the clock stands
// still or after it steps back, IDs counts up from the last value. It is safe for concurrent use.
type IDs struct {
	mu   sync.Mutex
	last uint64        // guarded by mu: milliseconds<<12 | fraction of the newest id
	rand *rand.ChaCha8 // guarded by mu
}

// NewIDs returns a source of ids. The random part is drawn from seed. Two sources that make ids for
// one store need different, unpredictable seeds.
func NewIDs(seed [32]byte) *IDs { return &IDs{rand: rand.NewChaCha8(seed)} }

// NextIn is Next, and returns an id in the given shard, see [ID.Shard].
func (s *IDs) NextIn(now time.Time, shard uint16) ID { return s.Next(now).in(shard) }

// Next returns a new id, greater than every earlier id of this source.
func (s *IDs) Next(now time.Time) ID {
	ns := max(0, now.UnixNano()) // before 1970 there is no id
	ms := ns / int64(time.Millisecond)
	stamp := uint64(ms)<<12 | uint64((ns%int64(time.Millisecond))<<12/int64(time.Millisecond))
	s.mu.Lock()
	stamp = max(stamp, s.last+1)
	s.last = stamp
	tail := s.rand.Uint64()
	s.mu.Unlock()

	var id ID
	for i := range 6 {
		id[i] = byte(stamp >> (12 + 8*(5-i)))
	}
	id[6] = 0x70 | byte(stamp>>8)&0x0f
	id[7] = byte(stamp)
	for i := range 8 {
		id[8+i] = byte(tail >> (8 * i))
	}
	id[8] = id[8]&0x3f | 0x80
	return id
}
