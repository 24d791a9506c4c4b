package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Checksum is a checksum of rows in any order: the sum of the SHA-256 of each row, so that equal
// rows do not cancel each other. The zero value is the checksum of no rows.
type Checksum [sha256.Size]byte

// add adds the SHA-256 of one row.
func (c *Checksum) add(row [sha256.Size]byte) {
	carry := uint16(0)
	for i := len(c) - 1; i >= 0; i-- {
		carry += uint16(c[i]) + uint16(row[i])
		c[i] = byte(carry)
		carry >>= 8
	}
}

// String returns the checksum in 64 hexadecimal digits.
func (c Checksum) String() string { return hex.EncodeToString(c[:]) }

// appendRow appends everything that a copy of a row must have, in one way for equal rows: all
// fields but Seq and Boost, which each store assigns itself. It does not use the record codec of a store:
// a field that a codec loses would then be missing from both checksums.
func appendRow(b []byte, t *task.Task) []byte {
	b = append(b, t.ID[:]...)
	b = appendNumbers(b, t.Version, uint64(t.State), uint64(t.Shard), uint64(t.Priority), uint64(t.Attempt), uint64(t.Crashes), uint64(t.Turn))
	b = appendTexts(b, t.Type, t.Group, t.Key, t.OrderingKey, t.LastError, t.Node)
	b = appendTimes(b, t.CreatedAt, t.ReadyAt, t.NextEventAt, t.ExpiresAt, t.StartedAt, t.UpdatedAt)
	b = append(b, t.Owner[:]...)
	b = appendNumbers(b, uint64(len(t.Headers)))
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		b = appendTexts(b, name, t.Headers[name])
	}
	b = appendBytes(b, t.Payload)
	b = appendBytes(b, t.Result)
	b = appendNumbers(b, uint64(len(t.History)))
	for _, a := range t.History {
		b = appendNumbers(b, uint64(a.Number), uint64(a.Outcome))
		b = appendTimes(b, a.StartedAt, a.EndedAt)
		b = appendTexts(b, a.Node, a.Error, a.By, a.Job, a.Before)
	}
	p := t.Progress()
	b = appendNumbers(b, p.Done, p.Total)
	b = appendTimes(b, p.At)
	b = appendTexts(b, p.Message)
	b = appendBytes(b, t.Checkpoint())
	b = appendNumbers(b, uint64(len(t.Search)))
	for _, v := range t.Search {
		b = appendNumbers(b, uint64(v))
	}
	b = appendBools(b, t.Inherits, t.Tombstone, t.Signals != nil, t.Parent != nil, t.Children != nil)
	if t.Signals != nil {
		b = appendSignals(b, t.Signals)
	}
	if t.Parent != nil {
		b = append(b, t.Parent.ID[:]...)
		b = appendNumbers(appendTexts(b, t.Parent.Name), uint64(t.Parent.Index))
	}
	if t.Children != nil {
		b = appendChildren(b, t.Children)
	}
	return b
}

func appendChildren(b []byte, c *task.Children) []byte {
	b = appendNumbers(b, uint64(len(c.Sets)))
	for i := range c.Sets {
		s := &c.Sets[i]
		b = appendTexts(b, s.Name)
		b = appendNumbers(b, uint64(s.Added), uint64(s.Done), uint64(s.Failed), uint64(s.Cancelled), uint64(s.Await))
		b = appendBools(b, s.OrFailed)
		b = appendBytes(appendBytes(b, s.Reported), s.Shards)
	}
	return b
}

func appendSignals(b []byte, s *task.Signals) []byte {
	b = appendNumbers(b, uint64(len(s.Awaits)))
	b = appendTexts(b, s.Awaits...)
	b = appendNumbers(b, uint64(s.Patience), uint64(s.Wake.By))
	b = appendSignal(b, s.Wake.Signal)
	b = appendNumbers(b, uint64(len(s.Kept)))
	for _, k := range s.Kept {
		b = appendSignal(b, k)
	}
	b = appendNumbers(b, uint64(len(s.Seen)))
	for _, id := range s.Seen {
		b = append(b, id[:]...)
	}
	return b
}

func appendSignal(b []byte, s task.Signal) []byte {
	b = append(b, s.ID[:]...)
	b = appendTexts(b, s.Name)
	b = appendTimes(b, s.At)
	return appendBytes(b, s.Data)
}

func appendBools(b []byte, values ...bool) []byte {
	for _, v := range values {
		n := byte(0)
		if v {
			n = 1
		}
		b = append(b, n)
	}
	return b
}

func appendNumbers(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func appendTimes(b []byte, times ...time.Time) []byte {
	for _, t := range times {
		b = appendNumbers(b, uint64(t.UnixMicro()))
	}
	return b
}

func appendTexts(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = append(appendNumbers(b, uint64(len(s))), s...)
	}
	return b
}

func appendBytes(b, value []byte) []byte {
	return append(appendNumbers(b, uint64(len(value))), value...)
}

// fieldsThatDiffer returns the names of the fields in which rows differ.
func fieldsThatDiffer(a, b *task.Task) string {
	var names []string
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range x.NumField() {
		one, other := *new(task.Task), *new(task.Task)
		reflect.ValueOf(&one).Elem().Field(i).Set(x.Field(i))
		reflect.ValueOf(&other).Elem().Field(i).Set(y.Field(i))
		if string(appendRow(nil, &one)) != string(appendRow(nil, &other)) {
			names = append(names, x.Type().Field(i).Name)
		}
	}
	return strings.Join(names, ", ")
}
