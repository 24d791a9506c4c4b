package postgres

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
)

// The kinds of payloads. Others are ignored.
//
//	w:3,17       tasks may be ready in these shards; any statement may notify it
//	t1:ID:TEXT   hints, in base64, from the process with this ID
//	m:TOPIC:TEXT a message and its topic, each in base64
//	c:WORD       a change that a heartbeat or a watch should read
const (
	kindWake    = "w"
	kindHints   = "t1"
	kindMessage = "m"
	kindControl = "c"
)

// maxPayload is a little less than the 7999 bytes that PostgreSQL allows.
const maxPayload = 7900

var errGarbage = errors.New("not hints")

// pack encodes hints into as few payloads as possible. A hint that is too large for a payload is
// replaced by the wake of its shard.
func pack(from string, ts []task.Hint) []string {
	prefix := kindHints + ":" + from + ":"
	room := base64.RawStdEncoding.DecodedLen(maxPayload - len(prefix))
	var payloads []string
	var full, one []byte
	flush := func() {
		if len(full) > 0 {
			payloads = append(payloads, prefix+base64.RawStdEncoding.EncodeToString(full))
			full = full[:0]
		}
	}
	for _, t := range ts {
		if one = appendHint(one[:0], t); len(one) > room {
			one = appendHint(one[:0], coord.Wake(t.Shard))
		}
		if len(full)+len(one) > room {
			flush()
		}
		full = append(full, one...)
	}
	flush()
	return payloads
}

func appendHint(b []byte, t task.Hint) []byte {
	b = append(b, t.ID[:]...)
	b = binary.AppendUvarint(b, t.Version)
	for _, s := range []string{t.Type, t.Group} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = append(b, t.Priority)
	b = binary.AppendVarint(b, t.ReadyAt)
	b = binary.AppendUvarint(b, t.Seq)
	b = append(b, byte(t.State))
	at := int64(0) // 0 for no time, else one more than the time
	if !t.NextEventAt.IsZero() {
		at = t.NextEventAt.UnixMicro() + 1
	}
	b = binary.AppendVarint(b, at)
	return binary.BigEndian.AppendUint16(b, t.Shard)
}

// unpack decodes a payload of pack without its prefix. With an error it returns the hints before
// the first mistake.
func unpack(text string) ([]task.Hint, error) {
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var ts []task.Hint
	for r := (reader{rest: raw}); len(r.rest) > 0; {
		var t task.Hint
		copy(t.ID[:], r.bytes(uint64(len(t.ID))))
		t.Version = r.uvarint()
		t.Type = string(r.bytes(r.uvarint()))
		t.Group = string(r.bytes(r.uvarint()))
		if p := r.bytes(1); p != nil {
			t.Priority = p[0]
		}
		t.ReadyAt = r.varint()
		t.Seq = r.uvarint()
		if s := r.bytes(1); s != nil {
			t.State = task.State(s[0])
		}
		if at := r.varint(); at != 0 {
			t.NextEventAt = time.UnixMicro(at - 1).UTC()
		}
		if s := r.bytes(2); s != nil {
			t.Shard = binary.BigEndian.Uint16(s)
		}
		if r.bad {
			return ts, errGarbage
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// reader decodes rest from its beginning. Once something does not fit, it is bad and returns
// zero values.
type reader struct {
	rest []byte
	bad  bool
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

// wakes decodes a payload of kindWake. A text that is not a list of shards stands for all.
func wakes(text string) []task.Hint {
	var ts []task.Hint
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(word, 10, 16)
		if err != nil {
			return []task.Hint{coord.WakeAll()}
		}
		ts = append(ts, coord.Wake(uint16(n)))
	}
	return ts
}
