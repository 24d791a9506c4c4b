package postgres

import (
	"bytes"
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
//	k:3:TYPE:KEY a task of this shard, type and ordering key was added, each in base64; it is behind
//	t1:ID:TEXT   hints, in base64, from the process with this ID
//	m:TOPIC:TEXT a message and its topic, each in base64
//	c:WORD       a change that a heartbeat or a watch should read
const (
	kindWake    = "w"
	kindKey     = "k"
	kindHints   = "t1"
	kindMessage = "m"
	kindControl = "c"
)

// maxPayload is a little less than the 7999 bytes that PostgreSQL allows.
const maxPayload = 7900

var errGarbage = errors.New("not hints")

// turnsFollow goes between the hints of a payload and their turns. To a program of the version before it is
// a mistake after the hints, as no hint begins so: an id and a number that is too large.
var turnsFollow = append(make([]byte, len(task.ID{})), bytes.Repeat([]byte{0xff}, binary.MaxVarintLen64+1)...)

// pack encodes hints into as few payloads as possible. A hint that is too large for a payload is
// replaced by the wake of its shard. Behind the hints of a payload are the turns of those that have one,
// and those tasks that are submitted and must not run yet, which programs of the version before would run.
func pack(from string, ts []task.Hint) []string {
	prefix := kindHints + ":" + from + ":"
	room := base64.RawStdEncoding.DecodedLen(maxPayload-len(prefix)) - len(turnsFollow)
	var payloads []string
	var hints, turns, hint, turn []byte
	n := uint64(0) // of hints
	flush := func() {
		if len(turns) > 0 {
			hints = append(append(hints, turnsFollow...), turns...)
		}
		if len(hints) > 0 {
			payloads = append(payloads, prefix+base64.RawStdEncoding.EncodeToString(hints))
		}
		hints, turns, n = hints[:0], turns[:0], 0
	}
	for _, t := range ts {
		if hint, turn = appendHint(hint[:0], t), appendTurn(turn[:0], t); len(hint)+len(turn) > room {
			hint, turn = appendHint(hint[:0], coord.Wake(t.Shard)), turn[:0]
		}
		if len(hints)+len(turns)+len(hint)+len(turn)+binary.MaxVarintLen64 > room {
			flush()
		}
		switch {
		case len(turn) > 0 && t.State == task.Submitted && t.Turn == task.Behind:
			turns = append(append(binary.AppendUvarint(turns, 0), hint...), turn...)
			continue
		case len(turn) > 0:
			turns = append(binary.AppendUvarint(turns, n+1), turn...)
		}
		hints, n = append(hints, hint...), n+1
	}
	flush()
	return payloads
}

// appendTurn appends the turn of a hint and its ordering key, nothing if it has neither.
func appendTurn(b []byte, t task.Hint) []byte {
	if t.Turn == task.Unordered && t.OrderingKey == "" {
		return b
	}
	b = binary.AppendUvarint(append(b, byte(t.Turn)), uint64(len(t.OrderingKey)))
	return append(b, t.OrderingKey...)
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
	r := reader{rest: raw}
	for len(r.rest) > 0 && !bytes.HasPrefix(r.rest, turnsFollow) {
		t := r.hint()
		if r.bad {
			return ts, errGarbage
		}
		ts = append(ts, t)
	}
	r.rest = bytes.TrimPrefix(r.rest, turnsFollow)
	for hints := uint64(len(ts)); len(r.rest) > 0; {
		n := r.uvarint()
		var apart task.Hint
		t := &apart
		switch {
		case n == 0:
			apart = r.hint()
		case n <= hints:
			t = &ts[n-1]
		default:
			r.bad = true
		}
		turn, key := r.byte(), string(r.bytes(r.uvarint()))
		if r.bad {
			return ts, errGarbage
		}
		t.Turn, t.OrderingKey = task.Turn(turn), key
		if n == 0 {
			ts = append(ts, apart)
		}
	}
	return ts, nil
}

// hint decodes what appendHint has appended.
func (r *reader) hint() (t task.Hint) {
	copy(t.ID[:], r.bytes(uint64(len(t.ID))))
	t.Version = r.uvarint()
	t.Type = string(r.bytes(r.uvarint()))
	t.Group = string(r.bytes(r.uvarint()))
	t.Priority = r.byte()
	t.ReadyAt = r.varint()
	t.Seq = r.uvarint()
	t.State = task.State(r.byte())
	if at := r.varint(); at != 0 {
		t.NextEventAt = time.UnixMicro(at - 1).UTC()
	}
	if s := r.bytes(2); s != nil {
		t.Shard = binary.BigEndian.Uint16(s)
	}
	return t
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

// addedID is the id in the hint of a task of which only the ordering key is known. It names no task.
var addedID = task.ID(bytes.Repeat([]byte{0xff}, len(task.ID{})))

// added decodes a payload of kindKey.
func added(text string) (h task.Hint, err error) {
	words := strings.Split(text, ":")
	if len(words) != 3 {
		return h, errGarbage
	}
	shard, err := strconv.ParseUint(words[0], 10, 16)
	if err != nil {
		return h, err
	}
	typ, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil {
		return h, err
	}
	key, err := base64.StdEncoding.DecodeString(words[2])
	if err != nil {
		return h, err
	}
	h = task.Hint{State: task.Submitted, OrderingKey: string(key), Trigger: task.Trigger{
		Ref: task.Ref{ID: addedID, Version: 1}, Queue: task.Queue{Type: string(typ)}, Shard: uint16(shard), Turn: task.Behind,
	}}
	return h, nil
}
