//go:build linux || darwin

package plugins

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/internal/supervise"
)

// ErrChecksum wraps the errors of programs that are not started because a file does not have the checksum that the
// configuration pins.
var ErrChecksum = errors.New("the file is not the one that is pinned")

// verify compares the pinned files with their checksums.
func (c *Config) verify() error {
	for _, path := range slices.Sorted(maps.Keys(c.SHA256)) {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("compare the checksum: %w", err)
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("compare the checksum of %s: %w", path, err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != strings.ToLower(c.SHA256[path]) {
			return fmt.Errorf("%s has the SHA-256 %s, not %s: %w; if it was changed on purpose, change the configuration",
				path, got, strings.ToLower(c.SHA256[path]), ErrChecksum)
		}
	}
	return nil
}

// newCgroup returns a control group for the next process, nil if none can be created.
func (h *Host) newCgroup(c *Config) *supervise.Cgroup {
	group, unlimited := h.cgroups.New(supervise.Limits(c.Limits))
	if unlimited != nil {
		h.mu.Lock()
		h.status.Unlimited = unlimited.Error()
		h.mu.Unlock()
	}
	return group
}
