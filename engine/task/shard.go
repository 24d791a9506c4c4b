package task

// ShardCount is how many parts the tasks are divided into, for nodes to share.
const ShardCount = 256

// Shards is a set of parts. The zero value has none; a nil *Shards has all.
type Shards [ShardCount / 64]uint64

// Add puts a part into the set.
func (s *Shards) Add(shard uint16) {
	shard %= ShardCount
	s[shard/64] |= 1 << (shard % 64)
}

// Has reports whether a part is in the set.
func (s *Shards) Has(shard uint16) bool {
	if s == nil {
		return true
	}
	shard %= ShardCount
	return s[shard/64]&(1<<(shard%64)) != 0
}

// Without returns the parts of s that are not in other. Neither may be nil.
func (s *Shards) Without(other *Shards) (rest Shards) {
	for i := range s {
		rest[i] = s[i] &^ other[i]
	}
	return rest
}

// IsEmpty reports whether no part is in the set.
func (s *Shards) IsEmpty() bool { return s != nil && *s == Shards{} }

// With returns the parts that are in s or in other. Neither may be nil.
func (s *Shards) With(other *Shards) (both Shards) {
	for i := range s {
		both[i] = s[i] | other[i]
	}
	return both
}
