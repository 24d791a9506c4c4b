package sharded

import "github.com/taskengine/taskengine/task"

// Each database numbers its rows from 1, and the ranks of rows of different databases must differ. So the
// store returns a Seq that begins with the number of the database. Hints carry it to other nodes, and
// it is not stored.
const seqBits = 56

// outward returns the Seq that the store returns for a row with a Seq of a database.
func outward(database int, seq uint64) uint64 { return uint64(database)<<seqBits | seq }

// inward returns the rank in a database behind which all rows rank that rank behind r, and none
// that does not.
func inward(database int, r task.Rank) task.Rank {
	const most = 1<<seqBits - 1
	switch of := int(r.Seq >> seqBits); {
	case database < of:
		r.Seq = most
	case database > of:
		r.Seq = 0
	default:
		r.Seq &= most
	}
	return r
}

// outwardAll is outward for rows that are returned; they may be nil.
func outwardAll(database int, ts []*task.Task) {
	for _, t := range ts {
		if t != nil {
			t.Seq = outward(database, t.Seq)
		}
	}
}
