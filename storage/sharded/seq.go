package sharded

import "github.com/taskengine/taskengine/engine/task"

// Each place numbers its rows from 1, and ranks of rows of different places must differ. So
// whoever uses the store sees numbers that begin with that of the place. They are told to
// other nodes, too, but kept nowhere.
const seqBits = 56

// outward returns what the number of a row of a place is to those who use the store.
func outward(place int, seq uint64) uint64 { return uint64(place)<<seqBits | seq }

// inward returns the rank in a place behind which all rows rank that rank behind r, and none
// that does not.
func inward(place int, r task.Rank) task.Rank {
	const most = 1<<seqBits - 1
	switch of := int(r.Seq >> seqBits); {
	case place < of:
		r.Seq = most
	case place > of:
		r.Seq = 0
	default:
		r.Seq &= most
	}
	return r
}

// outwardAll is outward for rows that are handed out; nil ones are left alone.
func outwardAll(place int, ts []*task.Task) {
	for _, t := range ts {
		if t != nil {
			t.Seq = outward(place, t.Seq)
		}
	}
}
