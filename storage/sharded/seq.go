package sharded

import "github.com/taskengine/taskengine/task"

// Each place numbers its rows from 1, and the ranks of rows of different places must differ. So the
// store returns a Seq that begins with the number of the place. Hints carry it to other nodes, and
// it is not stored.
const seqBits = 56

// outward returns the Seq that the store returns for a row with a Seq of a place.
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

// outwardAll is outward for rows that are returned; they may be nil.
func outwardAll(place int, ts []*task.Task) {
	for _, t := range ts {
		if t != nil {
			t.Seq = outward(place, t.Seq)
		}
	}
}
