package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// The first byte of a key names the table it belongs to. The layout, where text is an
// escaped string, time and number are eight bytes that sort, and id is sixteen:
//
//	a value id                                     -> nothing, for a row with that search value
//	c id                                           -> checkpoint too large for the record
//	d state time id                                -> nothing
//	e kind id                                      -> nothing, for a row in error
//	f id                                           -> children too large for the record
//	g id                                           -> signals too large for the record
//	h id                                           -> history too large for the record
//	i time id                                      -> size of the piece of a log
//	j id time                                      -> piece of a log
//	k kind text(type) node                         -> how many rows are in error
//	l ordering key                                 -> how many rows lend each priority
//	m name                                         -> about the store itself; m logs: how many bytes all logs have
//	m setting/name                                 -> a setting
//	n state id                                     -> nothing
//	o id                                           -> result too large for the record
//	p id                                           -> payload too large for the record
//	q text(type) text(group) priority time number  -> id, version, shard, turn if it has one
//	r id                                           -> record
//	s text(ordering key) time number               -> id, of a row that is behind
//	t ordering key                                 -> id, of the head
//	u text(type) text(key) ordering key            -> id
//	w kind text(type) time id                      -> nothing, for a row in error that changed then
const (
	prefixSearch     = 'a'
	prefixCheckpoint = 'c'
	prefixDue        = 'd'
	prefixKind       = 'e'
	prefixChildren   = 'f'
	prefixSignals    = 'g'
	prefixHistory    = 'h'
	prefixLogTime    = 'i'
	prefixLog        = 'j'
	prefixFailures   = 'k'
	prefixLent       = 'l'
	prefixMeta       = 'm'
	prefixNever      = 'n'
	prefixResult     = 'o'
	prefixPayload    = 'p'
	prefixReady      = 'q'
	prefixRecord     = 'r'
	prefixSeat       = 's'
	prefixHead       = 't'
	prefixUnique     = 'u'
	prefixFailed     = 'w'
)

// TableEnd returns the first key after the table, or the part of a table, that key is in. New
// rows have their keys at one end of each; a store that keeps the tables in separate files
// rewrites less. The rows of reserved ids, see [task.IsReservedID], are a part of their own before all others: some of them
// change often.
func TableEnd(key []byte) []byte {
	switch key[0] {
	case prefixDue, prefixNever:
		if len(key) > 1 {
			return []byte{key[0], key[1] + 1} // there are few states
		}
	case prefixRecord, prefixCheckpoint, prefixChildren, prefixSignals, prefixHistory, prefixResult, prefixPayload:
		if end := []byte{key[0], 0, 0, 0, 0, 0, 1}; bytes.Compare(key, end) < 0 {
			return end
		}
	}
	return []byte{key[0] + 1}
}

var (
	keyFormat = []byte{prefixMeta, 'l', 'a', 'y', 'o', 'u', 't'}
	keySeq    = []byte{prefixMeta, 's', 'e', 'q'}

	// keyDevelopment had the format of a store before the first release. Its numbers mean other formats.
	keyDevelopment = []byte{prefixMeta, 'f', 'o', 'r', 'm', 'a', 't'}
)

// settingPrefix begins the key of every setting, so that it differs from the keys above.
const settingPrefix = string(rune(prefixMeta)) + "setting/"

func settingKey(name string) []byte { return []byte(settingPrefix + name) }

// NameOf describes a key, for messages: of a key that belongs to a task, also the task.
func NameOf(key []byte) string {
	if name, ok := bytes.CutPrefix(key, []byte(settingPrefix)); ok {
		return fmt.Sprintf("setting %q", name)
	}
	if len(key) == logKeySize && key[0] == prefixLog {
		return fmt.Sprintf("piece of the log of task %v", task.ID(key[1:17]))
	}
	what := "" // of a task
	if len(key) > 0 {
		what = map[byte]string{
			prefixCheckpoint: "checkpoint", prefixDue: "due entry", prefixSearch: "search entry", prefixKind: "entry of an error", prefixLogTime: "log entry", prefixFailed: "entry of an error", prefixChildren: "children", prefixSignals: "signals", prefixHistory: "history", prefixNever: "entry",
			prefixResult: "result", prefixPayload: "payload", prefixRecord: "record",
		}[key[0]]
	}
	if size := len(task.ID{}); what != "" && len(key) > size {
		return fmt.Sprintf("%s of task %v", what, task.ID(key[len(key)-size:]))
	}
	return fmt.Sprintf("key %x", key)
}

const (
	idKeySize    = 1 + 16
	dueKeySize   = 1 + 1 + 8 + 16
	neverKeySize = 1 + 1 + 16
	rankSize     = 1 + 8 + 8
	seatSize     = 8 + 8
)

// A text ends with 0x00 0x00, and a 0x00 in it becomes 0x00 0xff. So texts sort like their bytes,
// and no text is the prefix of another.
const (
	textEnd    = "\x00\x00"
	textEscape = "\x00\xff"
)

func appendText(b []byte, s string) []byte { return append(appendPrefix(b, s), textEnd...) }

// appendPrefix appends the bytes with which each text begins that has the prefix s.
func appendPrefix(b []byte, s string) []byte {
	if strings.IndexByte(s, 0) < 0 {
		return append(b, s...)
	}
	for i := range len(s) {
		if s[i] == 0 {
			b = append(b, textEscape...)
		} else {
			b = append(b, s[i])
		}
	}
	return b
}

// cutText reads the text at the start of b and returns the rest.
func cutText(b []byte) (s string, rest []byte, err error) {
	end := bytes.IndexByte(b, 0)
	if end >= 0 && end+1 < len(b) && b[end+1] == 0 {
		return string(b[:end]), b[end+2:], nil
	}
	var out []byte
	for i := 0; i+1 < len(b); i++ {
		switch {
		case b[i] != 0:
			out = append(out, b[i])
		case b[i+1] == 0:
			return string(out), b[i+2:], nil
		case b[i+1] == 0xff:
			out = append(out, 0)
			i++
		default:
			return "", nil, fmt.Errorf("a string in a key: %w", ErrDamaged)
		}
	}
	return "", nil, fmt.Errorf("a string in a key: %w", ErrDamaged)
}

func appendTime(b []byte, micros int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(micros)^1<<63)
}

func timeAt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

func appendIDKey(b []byte, prefix byte, id task.ID) []byte {
	b = append(b, prefix)
	return append(b, id[:]...)
}

func idOf(key []byte) (task.ID, error) {
	if len(key) != idKeySize {
		return task.ID{}, fmt.Errorf("key %x: %w", key, ErrDamaged)
	}
	return task.ID(key[1:]), nil
}

// appendUniqueKey returns the key of the unique key of a row.
func appendUniqueKey(b []byte, t *task.Task) []byte {
	b = appendText(append(b, prefixUnique), t.Type)
	return append(appendText(b, t.Key), t.OrderingKey...)
}

// appendKeyOfSeats appends the prefix of the keys of all seats of an ordering key.
func appendKeyOfSeats(b []byte, key string) []byte { return appendText(append(b, prefixSeat), key) }

func appendSeat(b []byte, s task.Seat) []byte {
	return binary.BigEndian.AppendUint64(appendTime(b, s.ReadyAt), s.Seq)
}

func appendHeadKey(b []byte, key string) []byte { return append(append(b, prefixHead), key...) }

func appendDueKey(b []byte, s task.State, at int64, id task.ID) []byte {
	b = append(b, prefixDue, byte(s))
	b = appendTime(b, at)
	return append(b, id[:]...)
}

// parseDueKey decodes a key of the due index.
func parseDueKey(key []byte) (at int64, id task.ID, err error) {
	if len(key) != dueKeySize {
		return 0, task.ID{}, fmt.Errorf("key %x: %w", key, ErrDamaged)
	}
	return timeAt(key[2:]), task.ID(key[10:]), nil
}

func appendNeverKey(b []byte, s task.State, id task.ID) []byte {
	b = append(b, prefixNever, byte(s))
	return append(b, id[:]...)
}

// parseNeverKey returns the task of a key of the index of rows without a time.
func parseNeverKey(key []byte) (task.ID, error) {
	if len(key) != neverKeySize {
		return task.ID{}, fmt.Errorf("key %x: %w", key, ErrDamaged)
	}
	return task.ID(key[2:]), nil
}

func appendQueue(b []byte, l task.Queue) []byte {
	b = append(b, prefixReady)
	b = appendText(b, l.Type)
	return appendText(b, l.Group)
}

func appendRank(b []byte, r task.Rank) []byte {
	b = append(b, r.Priority)
	b = appendTime(b, r.ReadyAt)
	return binary.BigEndian.AppendUint64(b, r.Seq)
}

func appendReadyValue(b []byte, t *task.Task) []byte {
	b = append(b, t.ID[:]...)
	b = binary.AppendUvarint(b, t.Version)
	b = binary.AppendUvarint(b, uint64(t.Shard))
	if t.Turn != task.Unordered {
		b = append(b, byte(t.Turn))
	}
	return b
}

// parseReady makes a trigger of an entry of the ready index, given the length of the
// part of its key that names the queue.
func parseReady(queue task.Queue, prefix int, key, value []byte) (task.Trigger, error) {
	tr := task.Trigger{Queue: queue}
	if len(key) != prefix+rankSize || len(value) < 16 {
		return tr, fmt.Errorf("key %x: %w", key, ErrDamaged)
	}
	rank := key[prefix:]
	tr.Priority, tr.ReadyAt, tr.Seq = rank[0], timeAt(rank[1:]), binary.BigEndian.Uint64(rank[9:])
	tr.ID = task.ID(value[:16])
	d := decoder{rest: value[16:]}
	tr.Version, tr.Shard = d.uvarint(), uint16(d.number(math.MaxUint16))
	if len(d.rest) > 0 {
		tr.Turn = d.turn()
	}
	if d.bad || len(d.rest) > 0 {
		return tr, fmt.Errorf("value of key %x: %w", key, ErrDamaged)
	}
	return tr, nil
}

// entries are the index entries of one row; an empty key is none. They depend on the row alone.
// A row is in the ready index if it is Submitted and not Behind, and in the index of seats if it is Behind.
// It is in the due index if it has a NextEventAt. A
// row without that time in a state of untimed is in the index of rows without a time, which
// [View.List] and [View.Count] read. Other rows have no entry, since no query needs one.
type entries struct {
	ready, readyValue []byte
	seat              []byte
	id                task.ID // the value of seat
	due               []byte  // in the due index or in that of the rows without a time
	kind, failed      []byte  // in the indexes of rows in error
	failures          []byte  // the key of the counter of rows in error
	search            []byte  // the keys in the index of search values, one after the other
}

// never reports whether there is an entry in the index of the rows without a time.
func (e *entries) never() bool { return len(e.due) > 0 && e.due[0] == prefixNever }

// of sets e to the entries of t and reuses the buffers of e.
func (e *entries) of(t *task.Task) {
	e.ready, e.readyValue, e.seat, e.due = e.ready[:0], e.readyValue[:0], e.seat[:0], e.due[:0]
	if t.Turn == task.Behind {
		e.seat, e.id = appendSeat(appendKeyOfSeats(e.seat, t.OrderingKey), t.Seat()), t.ID
	} else if t.State == task.Submitted {
		e.ready = appendRank(appendQueue(e.ready, t.Queue()), t.Rank())
		e.readyValue = appendReadyValue(e.readyValue, t)
	}
	switch {
	case !t.NextEventAt.IsZero():
		e.due = appendDueKey(e.due, t.State, t.NextEventAt.UnixMicro(), t.ID)
	case untimed(t.State):
		e.due = appendNeverKey(e.due, t.State, t.ID)
	}
	e.ofError(t)
	e.search = e.search[:0]
	for _, v := range t.Search {
		e.search = appendSearchKey(e.search, v, t.ID)
	}
}

// untimed reports whether rows in this state have an index entry even without a time: these
// states are queried often, and few rows of a store are in them.
func untimed(s task.State) bool {
	return s == task.Waiting || s == task.Processing || s == task.Error
}

// dueRange returns the range of keys of q.
func dueRange(q storage.DueQuery) (lower, upper []byte) {
	if q.After.ID.IsZero() && q.After.At.IsZero() {
		lower = []byte{prefixDue, byte(q.State)}
	} else {
		lower = append(appendDueKey(nil, q.State, q.After.At.UnixMicro(), q.After.ID), 0)
	}
	upper = appendTime([]byte{prefixDue, byte(q.State)}, q.Before.UnixMicro()+1)
	return lower, upper
}

// successor returns the first key after all keys that begin with prefix. The last
// byte of prefix is not 0xff.
func successor(prefix []byte) []byte {
	next := bytes.Clone(prefix)
	next[len(next)-1]++
	return next
}

func appendNumber(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }

func getNumber(r Reader, key []byte) (n uint64, found bool, err error) {
	value, found, err := r.Get(key)
	if err != nil || !found {
		return 0, false, err
	}
	d := decoder{rest: value}
	if n = d.uvarint(); d.bad || len(d.rest) > 0 {
		return 0, false, fmt.Errorf("value of key %q: %w", key, ErrDamaged)
	}
	return n, true, nil
}

// IsEntry reports whether key is an entry of an index. The first byte of key says of which.
func IsEntry(key []byte) bool {
	return key[0] == prefixDue || key[0] == prefixNever || key[0] == prefixReady || key[0] == prefixSeat || key[0] == prefixKind || key[0] == prefixFailed || key[0] == prefixSearch
}
