// Package codec encodes the payloads, results and checkpoints of tasks for the store: it compresses them with Zstandard and
// encrypts them with AES-256. The engine encodes and decodes: handlers and callers see the data itself, and stores see the
// encoded data.
//
// # Format
//
// Data that is not encoded is stored as it is. Encoded data is an envelope that describes its encoding, so that it
// can be decoded after the configuration has changed:
//
//	4 bytes   00 74 65 01
//	1 byte    flags: 1 compressed, 2 encrypted
//	if it is encrypted:
//	  1 byte    length of the name of the key, and the name
//	  4 bytes   the beginning of a hash of the key, to distinguish two keys of the same name
//	  24 bytes  nonce
//	rest      the data: compressed, and then encrypted, with a tag of 16 bytes
//
// Data that begins like an envelope is put into one without flags. The encryption is XAES-256-GCM
// (https://c2sp.org/XAES-256-GCM). The bytes before the encrypted data, the type of the task and the kind of data are
// authenticated with it: a stored payload cannot be passed off as a result, or as the payload of a task of another type. An
// attacker who can write to the store can still exchange data within a type and a kind.
package codec

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Content describes data to encode or decode.
type Content struct {
	Type string // of the task
	Kind Kind
	Max  int // when it is decoded: how many bytes it may have if it is compressed; 0 is [MaxDecoded]
}

// Kind is a kind of data that a task carries. It is authenticated with encrypted data, so the values must not change.
type Kind string

// The values of Kind.
const (
	Payload    Kind = "payload"
	Result     Kind = "result"
	Checkpoint Kind = "checkpoint"
	Signal     Kind = "signal" // the data of a signal
	Log        Kind = "log"    // lines of the log of a task; Type is its ID
)

// Codec encodes data for the store, and decodes it. Its methods are called by several goroutines at once. They do not
// change the data that they are given, and may return it.
type Codec interface {
	// Encode returns the bytes to store for data. An error refuses the data.
	Encode(c Content, data []byte) ([]byte, error)

	// Decode returns the data for which Encode returned stored, and stored itself if it was not encoded. An error that
	// wraps [ErrDamaged] or [ErrTooLarge] is for good. Any other error means that it cannot be decoded now, and may be
	// later, with another configuration. It is a [*MissingKeyError] if a key is missing.
	Decode(c Content, stored []byte) ([]byte, error)
}

// Keyed is a [Codec] with keys that change.
type Keyed interface {
	Codec

	// IsCurrent reports whether Encode encrypts with the key that stored is encrypted with, if any. If it is
	// false, the data has to be encoded again before that key can be removed.
	IsCurrent(stored []byte) bool

	// HasKey reports whether data can be decoded that is encrypted with the key of this name.
	HasKey(name string) bool

	// Decrypted returns, for each key that the codec has, how often data was decrypted with it.
	Decrypted() map[string]uint64
}

// KeySize is how many bytes a key has.
const KeySize = 32

// MaxKeyName is how many bytes the name of a key may have.
const MaxKeyName = 64

// MaxDecoded limits the size of decompressed data, in bytes, if [Content.Max] does not.
const MaxDecoded = 1 << 30

// Errors that callers match with [errors.Is].
var (
	// ErrNoKey says that data is encrypted with a key that the codec does not have.
	ErrNoKey = errors.New("it has no such key")
	// ErrDamaged says that an envelope was changed, or is cut off.
	ErrDamaged = errors.New("the stored data is damaged, or of another task")
	// ErrTooLarge says that compressed data has more bytes than [Content.Max] allows.
	ErrTooLarge = errors.New("it is compressed, and larger than its type allows")
)

// MissingKeyError says that data is encrypted with a key that the codec does not have. It wraps [ErrNoKey].
type MissingKeyError struct {
	Kind    Kind
	Key     string // its name, of at most 255 bytes; anything that can write to the store can choose it
	Differs bool   // the codec has another key of that name
}

// Error implements error.
func (e *MissingKeyError) Error() string {
	if e.Differs {
		return fmt.Sprintf("codec: the %s is encrypted with another key %q than the one that is configured: %v", e.Kind, e.Key, ErrNoKey)
	}
	return fmt.Sprintf("codec: the %s is encrypted with the key %q: %v", e.Kind, e.Key, ErrNoKey)
}

// Unwrap returns [ErrNoKey].
func (e *MissingKeyError) Unwrap() error { return ErrNoKey }

// Config says how data is encoded. The zero value encodes nothing, and decodes compressed data.
type Config struct {
	// CompressAbove is the least size in bytes of data to compress, if that makes it smaller; 0 compresses nothing.
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
	decoder *zstd.Decoder // decodes into the given buffer, and no further
}

var _ Keyed = (*Envelope)(nil)

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
	if e.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxDecoded), zstd.WithDecodeAllCapLimit(true)); err != nil {
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
	out := make([]byte, 0, len(magic)+2+len(e.key)+checkSize+nonceSize+len(body)+tagSize)
	out = append(append(out, magic...), flags)
	if flags&flagEncrypted == 0 {
		return append(out, body...), nil
	}
	k := e.keys[e.key]
	out = append(append(append(out, byte(len(e.key))), e.key...), k.check[:]...)
	nonce := out[len(out) : len(out)+nonceSize]
	rand.Read(nonce) // it never fails
	out = out[:len(out)+nonceSize]
	return k.seal(out, nonce, body, authenticated(out, c)), nil
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
		if k == nil || k.check != h.check {
			return nil, &MissingKeyError{Kind: c.Kind, Key: h.key, Differs: k != nil}
		}
		var err error
		if body, err = k.open(h.nonce, body, authenticated(h.head, c)); err != nil {
			return nil, fmt.Errorf("codec: decrypt the %s with the key %q: %w", c.Kind, h.key, ErrDamaged)
		}
		k.opened.Add(1)
	}
	if h.flags&flagCompressed == 0 {
		return body, nil
	}
	data, err := e.decompress(body, cmp.Or(c.Max, MaxDecoded))
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, fmt.Errorf("codec: decompress the %s: %w (%d bytes)", c.Kind, ErrTooLarge, c.Max)
	case err != nil:
		return nil, fmt.Errorf("codec: decompress the %s: %w: %w", c.Kind, ErrDamaged, err)
	}
	return data, nil
}

// decompress decompresses body to at most most bytes. It allocates the size in the header of body, which Encode always
// writes. Without that size, from another writer, it allocates as it reads.
func (e *Envelope) decompress(body []byte, most int) ([]byte, error) {
	var head zstd.Header
	if err := head.Decode(body); err != nil {
		return nil, err
	}
	if !head.HasFCS {
		return decompressStream(body, most)
	}
	if head.FrameContentSize > uint64(most) {
		return nil, ErrTooLarge
	}
	data, err := e.decoder.DecodeAll(body, make([]byte, 0, head.FrameContentSize))
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) { // it has several frames, or lies
		return decompressStream(body, most)
	}
	return data, err
}

// decompressStream is decompress for a body without its size.
func decompressStream(body []byte, most int) ([]byte, error) {
	d, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxDecoded), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	data, err := io.ReadAll(io.LimitReader(d, int64(most)+1))
	if err == nil && len(data) > most {
		err = ErrTooLarge
	}
	return data, err
}

// maxWindow limits the memory that decompressStream needs besides the data, in bytes.
const maxWindow = 8 << 20

// IsCurrent implements [Keyed].
func (e *Envelope) IsCurrent(stored []byte) bool { return len(stored) == 0 || KeyOf(stored) == e.key }

// HasKey implements [Keyed].
func (e *Envelope) HasKey(name string) bool { return e.keys[name] != nil }

// Decrypted implements [Keyed].
func (e *Envelope) Decrypted() map[string]uint64 {
	all := make(map[string]uint64, len(e.keys))
	for name, k := range e.keys {
		all[name] = k.opened.Load()
	}
	return all
}

// KeyOf returns the name of the key that stored data is encrypted with; "" if it is not encrypted, or damaged.
func KeyOf(stored []byte) string {
	h, _ := parse(stored)
	return h.key
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
	check [checkSize]byte
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
		if len(stored) < at+1 || len(stored) < at+1+int(stored[at])+checkSize+nonceSize {
			return header{err: ErrDamaged}, true
		}
		end := at + 1 + int(stored[at])
		h.key = string(stored[at+1 : end])
		end += copy(h.check[:], stored[end:])
		h.nonce = stored[end : end+nonceSize]
		at = end + nonceSize
	}
	h.head, h.body = stored[:at], stored[at:]
	return h, true
}

// authenticated returns the additional authenticated data of encrypted data.
func authenticated(head []byte, c Content) []byte {
	return slices.Concat(head, []byte(c.Kind), []byte{0}, []byte(c.Type))
}
