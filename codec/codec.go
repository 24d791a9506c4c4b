// Package codec encodes what tasks carry, their payloads, results and checkpoints, for the store: it compresses them with
// Zstandard and encrypts them with AES-256. The engine encodes and decodes, so handlers and callers see the data as it was, and
// stores see what is encoded.
//
// # Format
//
// Data that is not encoded is stored as it is. Otherwise it is an envelope, which says how it was encoded, so that it
// can be decoded after the configuration has changed:
//
//	4 bytes   00 74 65 01
//	1 byte    flags: 1 compressed, 2 encrypted
//	if it is encrypted:
//	  1 byte    length of the name of the key, and the name
//	  24 bytes  nonce
//	rest      the data: compressed, and then encrypted, with a tag of 16 bytes
//
// Data that begins like an envelope is put into one without flags. The encryption is XAES-256-GCM
// (https://c2sp.org/XAES-256-GCM). What comes before the encrypted data, the type of the task and the kind of data are
// authenticated with it: what was stored as the payload of a task cannot be passed off as the result of one, or as that of a task
// of another type. Within a type and a kind, somebody who can write to the store can exchange it.
package codec

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Content says what some data is.
type Content struct {
	Type string // of the task
	Kind Kind
}

// Kind is a kind of data that a task carries. It is authenticated with encrypted data, so the values must not change.
type Kind string

// The values of Kind.
const (
	Payload    Kind = "payload"
	Result     Kind = "result"
	Checkpoint Kind = "checkpoint"
)

// Codec encodes data for the store, and decodes it. Its methods are called by several goroutines at once. They do not
// change the data that they are given, and may return it.
type Codec interface {
	// Encode returns what is stored for data. An error refuses the data.
	Encode(c Content, data []byte) ([]byte, error)

	// Decode returns the data for which Encode returned stored, and stored itself if it was not encoded. An error means
	// that it cannot be decoded now. It may be later, with another configuration.
	Decode(c Content, stored []byte) ([]byte, error)
}

// KeySize is how many bytes a key has.
const KeySize = 32

// MaxKeyName is how many bytes the name of a key may have.
const MaxKeyName = 64

// maxDecoded limits what compressed data may become, in bytes.
const maxDecoded = 1 << 30

// Errors that callers match with [errors.Is].
var (
	// ErrNoKey says that data is encrypted with a key that the codec does not have.
	ErrNoKey = errors.New("it has no such key")
	// ErrDamaged says that an envelope was changed, or is cut off.
	ErrDamaged = errors.New("what is stored is damaged, or of another task")
)

// Config says how data is encoded. The zero value encodes nothing, and decodes what is compressed.
type Config struct {
	// CompressAbove is from which size in bytes on data is compressed, if that makes it smaller; 0 compresses nothing.
	CompressAbove int

	// Keys are the secrets by name, of [KeySize] bytes each. Data that was encrypted with any of them can be decoded.
	Keys map[string][]byte
	// Key is the name of the key that encrypts; "" encrypts nothing.
	Key string
}

// Envelope is the [Codec] that is configured by a [Config].
type Envelope struct {
	above   int
	keys    map[string]*cipherOf // read only
	key     string
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

var _ Codec = (*Envelope)(nil)

// New returns the codec of a configuration, or an error if that cannot be. It keeps no reference to the keys.
func New(c Config) (*Envelope, error) {
	if c.CompressAbove < 0 {
		return nil, fmt.Errorf("codec: data cannot be compressed from %d bytes on", c.CompressAbove)
	}
	if _, ok := c.Keys[c.Key]; c.Key != "" && !ok {
		return nil, fmt.Errorf("codec: there is no key %q to encrypt with", c.Key)
	}
	e := &Envelope{above: c.CompressAbove, key: c.Key, keys: make(map[string]*cipherOf)}
	for name, secret := range c.Keys {
		if name == "" || len(name) > MaxKeyName {
			return nil, fmt.Errorf("codec: %q cannot be the name of a key: it must have 1 to %d bytes", name, MaxKeyName)
		}
		if len(secret) != KeySize {
			return nil, fmt.Errorf("codec: the key %q has %d bytes, and must have %d", name, len(secret), KeySize)
		}
		e.keys[name] = newCipher(secret)
	}
	var err error
	if e.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true)); err != nil {
		return nil, fmt.Errorf("codec: %w", err)
	}
	if e.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxDecoded)); err != nil {
		return nil, fmt.Errorf("codec: %w", err)
	}
	return e, nil
}

const (
	magic          = "\x00te\x01"
	flagCompressed = 1
	flagEncrypted  = 2
)

// Encode implements [Codec]. Empty data stays empty.
func (e *Envelope) Encode(c Content, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return data, nil
	}
	body, flags := data, byte(0)
	if e.above > 0 && len(data) >= e.above {
		if smaller := e.encoder.EncodeAll(data, nil); len(smaller) < len(data) {
			body, flags = smaller, flags|flagCompressed
		}
	}
	if e.key != "" {
		flags |= flagEncrypted
	}
	if flags == 0 && !bytes.HasPrefix(data, []byte(magic)) {
		return data, nil
	}
	out := make([]byte, 0, len(magic)+2+len(e.key)+nonceSize+len(body)+tagSize)
	out = append(append(out, magic...), flags)
	if flags&flagEncrypted == 0 {
		return append(out, body...), nil
	}
	out = append(append(out, byte(len(e.key))), e.key...)
	nonce := out[len(out) : len(out)+nonceSize]
	rand.Read(nonce) // it never fails
	out = out[:len(out)+nonceSize]
	return e.keys[e.key].seal(out, nonce, body, authenticated(out, c)), nil
}

// Decode implements [Codec]. An error wraps [ErrNoKey] or [ErrDamaged].
func (e *Envelope) Decode(c Content, stored []byte) ([]byte, error) {
	h, ok := parse(stored)
	switch {
	case !ok:
		return stored, nil
	case h.err != nil:
		return nil, fmt.Errorf("codec: decode the %s: %w", c.Kind, h.err)
	}
	body := h.body
	if h.flags&flagEncrypted != 0 {
		k := e.keys[h.key]
		if k == nil {
			return nil, fmt.Errorf("codec: the %s is encrypted with the key %q: %w", c.Kind, h.key, ErrNoKey)
		}
		var err error
		if body, err = k.open(h.nonce, body, authenticated(h.head, c)); err != nil {
			return nil, fmt.Errorf("codec: decrypt the %s with the key %q: %w", c.Kind, h.key, ErrDamaged)
		}
	}
	if h.flags&flagCompressed == 0 {
		return body, nil
	}
	data, err := e.decoder.DecodeAll(body, nil)
	if err != nil {
		return nil, fmt.Errorf("codec: decompress the %s: %w: %w", c.Kind, ErrDamaged, err)
	}
	return data, nil
}

// Describe says how stored data was encoded, such as "zstd, aes-256-gcm with the key 2026". It returns "" if it was not.
func Describe(stored []byte) string {
	h, ok := parse(stored)
	if !ok {
		return ""
	}
	var how []string
	if h.flags&flagCompressed != 0 {
		how = append(how, "zstd")
	}
	if h.flags&flagEncrypted != 0 {
		how = append(how, "aes-256-gcm with the key "+h.key)
	}
	return strings.Join(how, ", ")
}

// header is an envelope that was parsed.
type header struct {
	flags byte
	key   string
	head  []byte // up to the body
	nonce []byte
	body  []byte
	err   error // the envelope cannot be read
}

// parse returns the parts of an envelope, and whether stored is one.
func parse(stored []byte) (h header, ok bool) {
	if !bytes.HasPrefix(stored, []byte(magic)) {
		return h, false
	}
	at := len(magic)
	if len(stored) == at {
		return header{err: ErrDamaged}, true
	}
	h.flags = stored[at]
	at++
	switch {
	case h.flags&^(flagCompressed|flagEncrypted) != 0:
		h.err = fmt.Errorf("a later version has encoded it (flags %#x): %w", h.flags, ErrDamaged)
		return h, true
	case h.flags&flagEncrypted != 0:
		if len(stored) < at+1 || len(stored) < at+1+int(stored[at])+nonceSize {
			return header{err: ErrDamaged}, true
		}
		end := at + 1 + int(stored[at])
		h.key = string(stored[at+1 : end])
		h.nonce = stored[end : end+nonceSize]
		at = end + nonceSize
	}
	h.head, h.body = stored[:at], stored[at:]
	return h, true
}

// authenticated returns what is authenticated with encrypted data.
func authenticated(head []byte, c Content) []byte {
	return slices.Concat(head, []byte(c.Kind), []byte{0}, []byte(c.Type))
}
