// Package hints encodes hints for buses between processes.
package hints

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

// version is the first byte of an encoding. A program that knows another one decodes nothing of it.
const version = 1

// The errors of [Unpack].
var (
	ErrVersion = errors.New("hints of another version")
	ErrGarbage = errors.New("not hints")
)

// A hint begins with its [task.Subject], and one about a task goes on with a byte that says which of these parts it has.
const (
	hasTurn = 1 << iota
	hasKey
	hasTime
	flags // the first flag that does not exist
)

// Pack encodes hints into as few pieces of at most room bytes as possible, in their order. A hint that is too large for
// a piece is replaced by the wake of its shard. room is at least 100.
func Pack(hs []task.Hint, room int) (pieces [][]byte) {
	piece := []byte{version}
	var one []byte
	for i := range hs {
		if one = appendHint(one[:0], &hs[i]); 1+len(one) > room {
			wake := coord.Wake(hs[i].Shard)
			one = appendHint(one[:0], &wake)
		}
		if len(piece)+len(one) > room {
			pieces = append(pieces, piece)
			piece = []byte{version}
		}
		piece = append(piece, one...)
	}
	if len(piece) > 1 {
		pieces = append(pieces, piece)
	}
	return pieces
}

// appendHint appends the fields that the subject of h uses.
func appendHint(b []byte, h *task.Hint) []byte {
	b = append(b, byte(h.About))
	switch h.About {
	case task.AboutTask:
		return appendRow(b, h)
	case task.AboutKey:
		return appendText(appendText(binary.BigEndian.AppendUint16(b, h.Shard), h.Type), h.OrderingKey)
	case task.AboutShard:
		return binary.BigEndian.AppendUint16(b, h.Shard)
	}
	return b
}

func appendRow(b []byte, h *task.Hint) []byte {
	var has byte
	if h.Turn != task.Unordered {
		has |= hasTurn
	}
	if h.OrderingKey != "" {
		has |= hasKey
	}
	if !h.NextEventAt.IsZero() {
		has |= hasTime
	}
	b = append(append(b, has), h.ID[:]...)
	b = binary.AppendUvarint(b, h.Version)
	b = appendText(appendText(b, h.Type), h.Group)
	b = append(b, h.Priority)
	b = binary.AppendVarint(b, h.ReadyAt)
	b = binary.AppendUvarint(b, h.Seq)
	b = binary.BigEndian.AppendUint16(append(b, byte(h.State)), h.Shard)
	if has&hasTurn != 0 {
		b = append(b, byte(h.Turn))
	}
	if has&hasKey != 0 {
		b = appendText(b, h.OrderingKey)
	}
	if has&hasTime != 0 {
		b = binary.AppendVarint(b, h.NextEventAt.UnixMicro())
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// Unpack decodes a piece of [Pack]. With an error it returns the hints before the first mistake. The hints share no
// memory with the piece.
func Unpack(piece []byte) (hs []task.Hint, err error) {
	if len(piece) == 0 {
		return nil, ErrGarbage
	}
	if piece[0] != version {
		return nil, fmt.Errorf("%w: %d, and this program knows %d", ErrVersion, piece[0], version)
	}
	for r := (reader{rest: piece[1:]}); len(r.rest) > 0; {
		h := r.hint()
		if r.bad {
			return hs, ErrGarbage
		}
		hs = append(hs, h)
	}
	return hs, nil
}

// reader decodes rest from its beginning. Once something does not fit, it is bad and returns zero values.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) hint() (h task.Hint) {
	switch about := task.Subject(r.byte()); about {
	case task.AboutTask:
		return r.row()
	case task.AboutKey:
		h.About, h.Shard = about, r.shard()
		h.Type, h.OrderingKey = r.text(), r.text()
	case task.AboutShard:
		h.About, h.Shard = about, r.shard()
	case task.AboutAll, task.AboutSettings:
		h.About = about
	default:
		r.bad = true
	}
	return h
}

func (r *reader) row() (h task.Hint) {
	has := r.byte()
	r.bad = r.bad || has >= flags
	copy(h.ID[:], r.bytes(uint64(len(h.ID))))
	h.Version = r.uvarint()
	h.Type, h.Group = r.text(), r.text()
	h.Priority = r.byte()
	h.ReadyAt, h.Seq = r.varint(), r.uvarint()
	h.State = task.State(r.byte())
	h.Shard = r.shard()
	if has&hasTurn != 0 {
		h.Turn = task.Turn(r.byte())
		r.bad = r.bad || h.Turn == task.Unordered || h.Turn > task.Head
	}
	if has&hasKey != 0 {
		h.OrderingKey = r.text()
	}
	if has&hasTime != 0 {
		h.NextEventAt = time.UnixMicro(r.varint()).UTC()
	}
	return h
}

func (r *reader) bytes(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) shard() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) text() string { return string(r.bytes(r.uvarint())) }

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.bytes(uint64(max(n, 0)))
	r.bad = r.bad || n <= 0
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.bytes(uint64(max(n, 0)))
	r.bad = r.bad || n <= 0
	return v
}
