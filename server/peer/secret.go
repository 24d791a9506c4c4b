package peer

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
)

const (
	secretSize  = 32
	secretAgain = time.Second // between two readings because a signature was wrong
)

// errForeign says that a signature is not one of a node of this cluster.
var errForeign = errors.New("it is not signed by a node of this cluster")

// secret is the secret that the nodes of a cluster share: a setting of their coordinator, which the first node makes.
type secret struct {
	from coord.Config

	mu    sync.Mutex
	value []byte    // guarded by mu; nil: it was not read
	read  time.Time // guarded by mu: when it was read last
}

// get returns the secret. With again it is read anew, unless it was read just now: it may have been removed with the other
// contents of the coordinator, and made again.
func (s *secret) get(ctx context.Context, again bool) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.value != nil && (!again || time.Since(s.read) < secretAgain) {
		return s.value, nil
	}
	value, err := readSecret(ctx, s.from)
	if err != nil {
		return nil, fmt.Errorf("read the secret of the cluster: %w", err)
	}
	s.value, s.read = value, time.Now()
	return value, nil
}

// readSecret returns the secret in the settings of a coordinator, and makes one if there is none.
func readSecret(ctx context.Context, from coord.Config) ([]byte, error) {
	all, err := from.Settings(ctx, coord.SecretSetting)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Scope == "" && len(s.Value) >= secretSize {
			return s.Value, nil
		}
	}
	made := make([]byte, secretSize)
	rand.Read(made)
	made = []byte(base64.RawStdEncoding.EncodeToString(made)) // text, as other settings are
	now, _, err := from.Swap(ctx, coord.SecretSetting, "", 0, made)
	switch {
	case err != nil:
		return nil, err
	case len(now.Value) < secretSize:
		return nil, fmt.Errorf("the setting %s is damaged; remove it", coord.SecretSetting)
	}
	return now.Value, nil
}

// sign returns the signature of some parts, none of which contains a line break.
func (s *secret) sign(ctx context.Context, parts ...string) (string, error) {
	key, err := s.get(ctx, false)
	if err != nil {
		return "", err
	}
	return signature(key, parts), nil
}

// verify returns an error unless a signature is that of the parts.
func (s *secret) verify(ctx context.Context, signed string, parts ...string) error {
	for _, again := range []bool{false, true} {
		key, err := s.get(ctx, again)
		if err != nil {
			return err
		}
		if hmac.Equal([]byte(signed), []byte(signature(key, parts))) {
			return nil
		}
	}
	return errForeign
}

func signature(key []byte, parts []string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(parts, "\n")))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
