package task

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestShardsAreReadAsTheyAreWritten(t *testing.T) {
	var s Shards
	for _, n := range []uint16{0, 1, 2, 127, 200, 254, 255} {
		s.Add(n)
	}
	const text = "0-2,127,200,254-255"
	if got := s.String(); got != text {
		t.Errorf("it is %s", got)
	}
	if got, err := ParseShards("254-255, 0-2,200,127"); err != nil || got != s {
		t.Errorf("%s is read as %s: %v", text, &got, err)
	}
	for _, bad := range []string{"", "x", "-1", "3-2", "0-256", "1,,2", "1-2-3"} {
		if got, err := ParseShards(bad); !errors.Is(err, ErrBadShards) {
			t.Errorf("%q is read as %s: %v", bad, &got, err)
		}
	}
}

// UUIDs of every version that a caller may pass differ in a byte that the shard depends on.
func TestIDsOfAShardAreOrderedAndOfIt(t *testing.T) {
	ids, now := NewIDs([32]byte{1}), time.Unix(1e9, 0)
	last, shards := ID{}, Shards{}
	for n := range 3 * ShardCount {
		id := ids.NextIn(now, uint16(n%ShardCount))
		if id.Shard() != uint16(n%ShardCount) || id.Compare(last) <= 0 {
			t.Fatalf("%v is of shard %d, and comes after %v", id, id.Shard(), last)
		}
		shards.Add(ids.Next(now).Shard())
		last = id
	}
	if n := len(shards.List()); n < ShardCount*8/10 {
		t.Errorf("%d ids are of %d shards", 3*ShardCount, n)
	}
}

func TestManyOrderingKeysAreSpreadEvenlyOverTheShards(t *testing.T) {
	const keys, even = 100_000, 100_000 / ShardCount
	for _, format := range []string{"incident-%d", "%d", "%08x", "customer/%d/orders"} {
		var each [ShardCount]int
		for i := range keys {
			shard, _ := BoundShard("", "", fmt.Sprintf(format, i))
			each[shard]++
		}
		for shard, n := range each {
			if n < even*2/3 || n > even*4/3 {
				t.Errorf("%d keys of the form %q are of shard %d; an even share is %d", n, format, shard, even)
			}
		}
	}
}

func TestShardsAreASet(t *testing.T) {
	var s, other Shards
	if !s.IsEmpty() {
		t.Error("a new set is not empty")
	}
	for n := uint16(0); n < ShardCount; n += 3 {
		s.Add(n)
	}
	other.Add(255 + ShardCount) // the same as 255
	rest := s.Without(&other)
	for n := range uint16(ShardCount) {
		if s.Has(n) != (n%3 == 0) || rest.Has(n) != (n%3 == 0 && n != 255) {
			t.Errorf("%d: in the set %t, in the rest %t", n, s.Has(n), rest.Has(n))
		}
	}
	if all := (*Shards)(nil); !all.Has(7) || all.IsEmpty() {
		t.Error("nil does not have all")
	}
}
