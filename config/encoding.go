package config

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/internal/suggest"
)

// Encoding is the encoding of payloads, results and checkpoints in the store. The zero value stores
// them unchanged.
type Encoding struct {
	Compress int             // least size in bytes to compress; 0 compresses nothing
	Key      string          // name of the key that encrypts; "" encrypts nothing
	Keys     map[string]Text // of keySize bytes each, in base64
}

// Bytes of a key, and of its name at most.
const (
	keySize    = 32
	maxKeyName = 64
)

var encodingTable = &object{fields: []field{
	{name: "compress", doc: "The smallest size of data that is compressed with Zstandard, if that makes it smaller. 0B compresses nothing. Compressed data is decompressed with every setting.", def: "0B", is: size(0, 1<<30, "a size, such as 4KiB"), at: in(func(e *Encoding) *int { return &e.Compress })},
	{name: "key", doc: "The name of the key of `keys` that encrypts, with AES-256.", otherwise: "nothing is encrypted", is: words("the name of a key", isName), at: in(func(e *Encoding) *string { return &e.Key })},
	{name: "keys", doc: "The keys by name: 32 bytes each, in base64. Write references, such as `${file:PATH}`. Data that was encrypted with any of them is decrypted. A task is not run while its key is missing.", otherwise: "none", is: table[Text]{of: "keys", keys: isKeyName, likely: "KEY", is: guarded{secret("32 bytes in base64", isKey), hideAll}}, at: in(func(e *Encoding) *map[string]Text { return &e.Keys })},
}}

func isKeyName(name string) error {
	if err := isName(name); err != nil {
		return err
	}
	if len(name) > maxKeyName {
		return fmt.Errorf("has more than %d bytes; shorten it", maxKeyName)
	}
	return nil
}

func isKey(text string) error {
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(secret) != keySize {
		return fmt.Errorf("is not %d bytes in base64; make a key with: openssl rand -base64 %d", keySize, keySize)
	}
	return nil
}

// hideAll shows nothing of a secret.
func hideAll(_, _ string) string { return mask }

// encoding refuses a key to encrypt with that there is not.
func (d *decoder) encoding() {
	e := d.cfg.Encoding
	if _, ok := e.Keys[e.Key]; e.Key == "" || ok || d.cfg.tree.find("encoding").child("keys").child(e.Key) != nil {
		return
	}
	advice := "add it to encoding.keys"
	if names := slices.Sorted(maps.Keys(e.Keys)); len(names) > 0 {
		advice += ", or name " + suggest.Either(names)
	}
	d.conflict([]string{"encoding", "key"}, fmt.Sprintf("there is no key %q; %s", e.Key, advice))
}
