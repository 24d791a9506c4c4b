package codec_test

import (
	"crypto/rand"
	"fmt"
	"log"

	"github.com/taskengine/taskengine/codec"
)

func Example() {
	key := make([]byte, codec.KeySize) // of a key service, or a file
	_, _ = rand.Read(key)

	c, err := codec.New(codec.Config{Keys: map[string][]byte{"2026": key}, Key: "2026"}) // for Codec of engine.Config
	if err != nil {
		log.Fatal(err)
	}
	mail := codec.Content{Type: "mail", Kind: codec.Payload}
	stored, err := c.Encode(mail, []byte("hello"))
	if err != nil {
		log.Fatal(err)
	}
	data, err := c.Decode(mail, stored)
	fmt.Println(codec.Describe(stored))
	fmt.Println(string(data), err)
	// Output:
	// aes-256-gcm with the key 2026
	// hello <nil>
}
