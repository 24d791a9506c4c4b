package policy

// Unique says what a request does whose key another task of its type has.
type Unique struct {
	OnConflict OnConflict
}

// IsDefault reports whether nothing is configured: the tasks of such a type are not read to answer a request.
func (u *Unique) IsDefault() bool { return u.OnConflict == KeepExisting }

// OnConflict says what a request does whose key is taken.
type OnConflict uint8

// The values of OnConflict. A task has begun when it was grabbed once.
const (
	KeepExisting     OnConflict = iota // it does nothing, and is answered with the task that has the key
	RejectNew                          // it fails
	ReplaceExisting                    // its content becomes that of the task, unless the task has begun
	DebounceExisting                   // as ReplaceExisting, and its time becomes that of the task, too
)

var onConflictNames = [...]string{"keep", "reject", "replace", "debounce"}

// String returns the name of the value.
func (o OnConflict) String() string { return onConflictNames[min(int(o), len(onConflictNames)-1)] }

// Replaces reports whether requests change the task that has their key.
func (o OnConflict) Replaces() bool { return o == ReplaceExisting || o == DebounceExisting }

func (c *checker) unique(u Unique, at func(...string) []string) {
	if u.OnConflict > DebounceExisting {
		c.add("must be keep, reject, replace or debounce", at("unique", "on_conflict")...)
	}
}
