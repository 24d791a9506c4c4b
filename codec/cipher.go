package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"
)

const (
	nonceSize = 24
	tagSize   = 16
	checkSize = 4
)

// cipherOf encrypts with one key, by XAES-256-GCM (https://c2sp.org/XAES-256-GCM): AES-256-GCM with a key that is derived, as
// by NIST SP 800-108r1 with CMAC, from the first half of a nonce of 192 bits. Its nonces are random: with AES-GCM itself,
// with nonces of 96 bits, one key could encrypt no more than 2^32 messages, which a node writes in hours.
type cipherOf struct {
	block cipher.Block
	k1    [aes.BlockSize]byte // the first subkey of CMAC
	check [checkSize]byte     // distinguishes keys; 32 bits of a hash reveal nothing about 256 random bits

	opened atomic.Uint64 // how often data was decrypted
}

func newCipher(key []byte) *cipherOf {
	c := new(cipherOf)
	c.block, _ = aes.NewCipher(key) // the length of the key was checked
	sum := sha256.Sum256(append([]byte("taskengine key check\x00"), key...))
	copy(c.check[:], sum[:])
	c.block.Encrypt(c.k1[:], c.k1[:])
	var msb byte
	for i := len(c.k1) - 1; i >= 0; i-- {
		msb, c.k1[i] = c.k1[i]>>7, c.k1[i]<<1|msb
	}
	c.k1[len(c.k1)-1] ^= byte(subtle.ConstantTimeSelect(int(msb), 0b10000111, 0))
	return c
}

// derive returns the cipher of a nonce.
func (c *cipherOf) derive(nonce []byte) cipher.AEAD {
	key := make([]byte, 0, 2*aes.BlockSize)
	key = append(append(key, 0, 1, 'X', 0), nonce[:12]...)
	key = append(append(key, 0, 2, 'X', 0), nonce[:12]...)
	for half := range 2 {
		b := key[half*aes.BlockSize : (half+1)*aes.BlockSize]
		subtle.XORBytes(b, b, c.k1[:])
		c.block.Encrypt(b, b)
	}
	block, _ := aes.NewCipher(key)
	gcm, _ := cipher.NewGCM(block) // neither fails with such a key
	return gcm
}

// seal appends data, encrypted, to out.
func (c *cipherOf) seal(out, nonce, data, authenticated []byte) []byte {
	return c.derive(nonce).Seal(out, nonce[12:], data, authenticated)
}

// open returns the decrypted data.
func (c *cipherOf) open(nonce, sealed, authenticated []byte) ([]byte, error) {
	return c.derive(nonce).Open(nil, nonce[12:], sealed, authenticated)
}
