package task

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// ShardCount is the number of shards. Every task is in one shard. Nodes and databases divide the
// shards among them.
const ShardCount = 256

// Shard returns the shard of an ID. It decides in which of several databases the task is stored
// and, unless the task is bound to another shard, which node runs it. The hash uses bytes that
// differ from one UUID to the next in every version of UUID.
func (id ID) Shard() uint16 { return uint16(id[3]^id[7]^id[15]) % ShardCount }

// in returns id with its last byte changed so that the id is in the given shard.
func (id ID) in(shard uint16) ID {
	id[15] = id[3] ^ id[7] ^ byte(shard)
	return id
}

// ShardOf returns the shard of a name, by its hash.
func ShardOf(name string) uint16 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return uint16(h.Sum32() % ShardCount)
}

// BoundShard returns the shard that a task must be in because of its key or its ordering key, and
// whether it has one of these: tasks with the same key are in the same shard. If a task has both, the
// ordering key decides. Of a document, [DocumentShard] does.
func BoundShard(typ, key, orderingKey string) (shard uint16, bound bool) {
	switch {
	case orderingKey != "":
		return ShardOf(orderingKey), true
	case typ == DocumentType:
		return DocumentShard(key), true
	case key != "":
		return ShardOf(typ + "\x00" + key), true
	}
	return 0, false
}

// Shards is a set of shards. The zero value is empty. A nil *Shards has all shards.
type Shards [ShardCount / 64]uint64

// AllShards returns the set of all shards.
func AllShards() (all Shards) {
	for i := range all {
		all[i] = ^uint64(0)
	}
	return all
}

// Add adds a shard to the set.
func (s *Shards) Add(shard uint16) {
	shard %= ShardCount
	s[shard/64] |= 1 << (shard % 64)
}

// Has reports whether a shard is in the set.
func (s *Shards) Has(shard uint16) bool {
	if s == nil {
		return true
	}
	shard %= ShardCount
	return s[shard/64]&(1<<(shard%64)) != 0
}

// Without returns the shards of s that are not in other. Neither may be nil.
func (s *Shards) Without(other *Shards) (rest Shards) {
	for i := range s {
		rest[i] = s[i] &^ other[i]
	}
	return rest
}

// IsEmpty reports whether the set is empty.
func (s *Shards) IsEmpty() bool { return s != nil && *s == Shards{} }

// With returns the shards that are in s or in other. Neither may be nil.
func (s *Shards) With(other *Shards) (both Shards) {
	for i := range s {
		both[i] = s[i] | other[i]
	}
	return both
}

// List returns the shards in the set, in ascending order.
func (s *Shards) List() (list []uint16) {
	for shard := range uint16(ShardCount) {
		if s.Has(shard) {
			list = append(list, shard)
		}
	}
	return list
}

// String returns the shards as ranges, such as 0-127,200.
func (s *Shards) String() string {
	var b strings.Builder
	for from := 0; from < ShardCount; from++ {
		if !s.Has(uint16(from)) {
			continue
		}
		to := from
		for to+1 < ShardCount && s.Has(uint16(to+1)) {
			to++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(from))
		if to > from {
			b.WriteString("-" + strconv.Itoa(to))
		}
		from = to
	}
	return b.String()
}

// ErrBadShards is wrapped by the errors of [ParseShards].
var ErrBadShards = fmt.Errorf("want shards from 0 to %d, such as 0-127,200", ShardCount-1)

// ParseShards is the inverse of [Shards.String]. It accepts at least one range, in any order.
func ParseShards(text string) (s Shards, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || from > to || to >= ShardCount {
			return Shards{}, fmt.Errorf("%.40q: %w", part, ErrBadShards)
		}
		for shard := from; shard <= to; shard++ {
			s.Add(uint16(shard))
		}
	}
	return s, nil
}
