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
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrChecksum wraps the errors of programs that are not started because a file is not the
// one that the configuration pins.
var ErrChecksum = errors.New("the file is not the one that is pinned")

// verify compares the files that are pinned with what they should be.
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

// credential returns the user as whom the program runs, nil for the node's own.
func (c *Config) credential() (*syscall.Credential, error) {
	if c.User == "" {
		return nil, nil
	}
	u, err := user.Lookup(c.User)
	if err != nil {
		if u, err = user.LookupId(c.User); err != nil {
			return nil, fmt.Errorf("there is no user %q", c.User)
		}
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %q: %w", c.User, err)
	}
	out := new(syscall.Credential)
	for _, id := range append([]string{u.Uid, u.Gid}, ids...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %q has the id %q: %w", c.User, id, err)
		}
		out.Groups = append(out.Groups, uint32(n))
	}
	out.Uid, out.Gid, out.Groups = out.Groups[0], out.Groups[1], out.Groups[2:]
	return out, nil
}

// cage returns a cage for the next process, nil if there can be none; if limits are
// wanted that is a reason to complain, once.
func (h *Host) cage(c *Config) *cage {
	out, err := newCage(c.Limits)
	if err == nil {
		return out
	}
	if c.Limits == (Limits{}) {
		h.log.Debug("handler is in no control group of its own", "error", err)
		return nil
	}
	h.mu.Lock()
	first := h.status.Unlimited == ""
	h.status.Unlimited = err.Error()
	h.mu.Unlock()
	if first {
		h.log.Warn("the limits of the handler are not enforced", "error", err)
	}
	out, err = newCage(Limits{})
	if err != nil {
		return nil
	}
	return out
}
