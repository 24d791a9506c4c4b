package kv

import (
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/storage"
)

// errDiskFull has a remedy for the most frequent cause.
var errDiskFull = errors.New("the disk is full, make room and start again")

// Broken returns the error of a store that accepts nothing more, and why.
func Broken(cause error) error {
	if isDiskFull(cause) {
		return fmt.Errorf("%w: %w: %w", storage.ErrBroken, errDiskFull, cause)
	}
	return fmt.Errorf("%w: %w", storage.ErrBroken, cause)
}
