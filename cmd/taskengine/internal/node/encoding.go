package node

import (
	"encoding/base64"
	"fmt"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/config"
)

// codecOf returns the codec of tasks in the store of a configuration.
func codecOf(e config.Encoding) (codec.Codec, error) {
	c := codec.Config{CompressAbove: e.Compress, Key: e.Key, Keys: make(map[string][]byte, len(e.Keys))}
	for name, text := range e.Keys {
		secret, err := base64.StdEncoding.DecodeString(text.Reveal())
		if err != nil {
			return nil, fmt.Errorf("encoding: the key %q is not in base64", name) // the error would show a part of it
		}
		c.Keys[name] = secret
	}
	return codec.New(c)
}
