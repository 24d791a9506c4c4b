package engine

import (
	"sync/atomic"
	"time"
)

// seldomEvery is how long what was told is not told again, however often it happens.
const seldomEvery = time.Minute

// seldom keeps what happens again and again while something is wrong from filling the log.
type seldom struct{ told atomic.Pointer[time.Time] }

// due reports whether it is to be told now. Of several at once one tells.
func (s *seldom) due() bool {
	now, told := time.Now(), s.told.Load()
	return (told == nil || now.Sub(*told) >= seldomEvery) && s.told.CompareAndSwap(told, &now)
}
