package task

import "testing"

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
