package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
)

// Prefix is the prefix of each token. Users and secret scanners recognise tokens by it.
const Prefix = "te_"

// randomBytes is how many random bytes a token has. They cannot be guessed, so one round of SHA-256 keeps them secret.
const randomBytes = 32

// NewText returns the text of a new token.
func NewText() string {
	var b [randomBytes]byte
	rand.Read(b[:]) // never fails
	return Prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Hash is the hash of a token. The time to find a token by its hash reveals nothing about the token.
type Hash [sha256.Size]byte

// HashOf returns the hash of a text.
func HashOf(text string) Hash { return sha256.Sum256([]byte(text)) }

const hashKind = "sha256:"

// MarshalText implements [encoding.TextMarshaler].
func (h Hash) MarshalText() ([]byte, error) { return []byte(hashKind + hex.EncodeToString(h[:])), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *Hash) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), hashKind)
	if b, err := hex.DecodeString(digits); ok && err == nil && len(b) == len(h) {
		copy(h[:], b)
		return nil
	}
	return errors.New("a hash is not sha256: and 64 hexadecimal digits")
}

// Bearer returns the token in the header Authorization of a request; "" if there is none.
func Bearer(header string) string {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}
