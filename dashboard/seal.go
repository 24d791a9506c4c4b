package dashboard

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// The purposes of sealed values. A value of one is of no use for another.
const (
	forAttempt = "attempt" // a log-in that has begun
	forSession = "session"
	forHint    = "hint" // the ID token, for logging out at the provider
)

// errForged says that a value was not sealed by a node of this cluster.
var errForged = errors.New("it was not sealed by a node of this cluster")

// sealer encrypts values that browsers keep, so that they can neither be read nor changed there. All nodes of a cluster have the same key.
type sealer struct {
	secret func(ctx context.Context, anew bool) ([]byte, error) // see [Login]
	salt   []byte                                               // another one gives another key
}

// cipher returns the cipher for a purpose. With anew the secret is read again.
func (s sealer) cipher(ctx context.Context, purpose string, anew bool) (cipher.AEAD, error) {
	secret, err := s.secret(ctx, anew)
	if err != nil {
		return nil, err
	}
	const size = 32
	key, err := hkdf.Key(sha256.New, secret, s.salt, "taskengine dashboard "+purpose, size)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal returns a value as a text for a cookie.
func (s sealer) seal(ctx context.Context, purpose string, value any) (string, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	c, err := s.cipher(ctx, purpose, false)
	if err != nil {
		return "", fmt.Errorf("seal a cookie: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(c.Seal(nil, nil, plain, nil)), nil
}

// open reads a sealed value. The error is [errForged] unless a node of this cluster has sealed it for this purpose.
func (s sealer) open(ctx context.Context, purpose, text string, value any) error {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errForged
	}
	for _, anew := range []bool{false, true} {
		c, err := s.cipher(ctx, purpose, anew)
		if err != nil {
			return fmt.Errorf("open a cookie: %w", err)
		}
		if plain, err := c.Open(nil, nil, sealed, nil); err == nil {
			return json.Unmarshal(plain, value)
		}
	}
	return errForged
}

// newSealer returns the sealer of the sessions of a client of a provider.
func newSealer(l *Login) sealer {
	salt := sha256.New()
	for _, part := range []string{l.Provider.Issuer, l.Provider.ClientID, l.Provider.ClientSecret} {
		_, _ = fmt.Fprintf(salt, "%d:%s", len(part), part) // a hash takes everything
	}
	return sealer{l.Secret, salt.Sum(nil)}
}
