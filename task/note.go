package task

import "time"

// MaxCheckpoint is the maximum size of a checkpoint in bytes.
const MaxCheckpoint = 1 << 20

// MaxProgressText is the maximum number of bytes of a progress message in a row. Longer ones are
// cut.
const MaxProgressText = 256

// Progress says how much of its work an attempt has done. The zero value is none.
type Progress struct {
	Done    uint64    // in a unit that the handler chooses
	Total   uint64    // zero if unknown
	Message string    // for display; at most MaxProgressText bytes
	At      time.Time // when it was reported
}

// Notes has the reports of attempts of a task before their ends. Most tasks have none, therefore a row
// has a pointer to them. The Notes of a row are never changed, but replaced.
type Notes struct {
	Progress   Progress // of the newest attempt
	Checkpoint []byte   // for the next attempt; a store may leave it out like the payload
}

// NewNotes returns notes with a progress and a checkpoint, which is not copied. It returns nil if both
// are empty.
func NewNotes(p Progress, checkpoint []byte) *Notes {
	if len(checkpoint) > 0 {
		return &Notes{p, checkpoint}
	}
	if p != (Progress{}) {
		return &Notes{Progress: p}
	}
	return nil
}

// Progress returns the progress that the newest attempt reported.
func (t *Task) Progress() Progress {
	if t.Notes == nil {
		return Progress{}
	}
	return t.Notes.Progress
}

// Checkpoint returns the checkpoint that an attempt saved for the next one, or nil. It is removed when
// the work is done. The caller must not change the bytes.
func (t *Task) Checkpoint() []byte {
	if t.Notes == nil {
		return nil
	}
	return t.Notes.Checkpoint
}

// Note is a report of a running attempt before it ends. The engine decides nothing by it, so it does
// not change the version: the Ref of the attempt stays valid.
type Note struct {
	Ref
	By         ID        // the node of the attempt: the Owner that the row must have; zero is any
	Progress   *Progress // nil keeps the old one
	Checkpoint []byte    // nil keeps the old one, empty removes it
}

// Apply applies n to t and reports whether it did. It does nothing and returns false if t is at
// another version, not Processing, or of another Owner than By. t keeps a reference to the checkpoint.
func (n Note) Apply(t *Task) bool {
	if t.Ref() != n.Ref || t.State != Processing || !n.By.IsZero() && t.Owner != n.By {
		return false
	}
	progress, checkpoint := t.Progress(), t.Checkpoint()
	if n.Progress != nil {
		progress = *n.Progress
		progress.Message = cut(progress.Message, MaxProgressText)
		progress.At = Stamp(progress.At)
	}
	if n.Checkpoint != nil {
		checkpoint = n.Checkpoint
	}
	t.Notes = NewNotes(progress, checkpoint)
	return true
}
