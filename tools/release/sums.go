package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// sumsName is the name of the file with the checksums, as sha256sum reads it.
const sumsName = "SHA256SUMS"

// signatureNamespace is the purpose of the signature, which its reader has to name: that of files, as SSH uses it.
const signatureNamespace = "file"

// writeSums writes the checksums of all files in a folder, in the order of their names.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsName), sums.Bytes(), 0o644)
}

// sign signs the checksums in a folder with an SSH key, and checks the signature. Without a key it does nothing.
// ssh-keygen is used as a program because it also signs with keys in an agent or in a token.
func sign(dir, key string) error {
	if key == "" {
		return nil
	}
	sums := filepath.Join(dir, sumsName)
	cmd := exec.Command("ssh-keygen", "-q", "-Y", "sign", "-n", signatureNamespace, "-f", key, sums)
	cmd.Stdin = os.Stdin // of a passphrase
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sign %s with %s: %w: %s", sumsName, key, err, bytes.TrimSpace(out))
	}
	text, err := os.Open(sums)
	if err != nil {
		return err
	}
	defer text.Close()
	check := exec.Command("ssh-keygen", "-q", "-Y", "check-novalidate", "-n", signatureNamespace, "-s", sums+".sig")
	check.Stdin = text
	if out, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("check the signature of %s: %w: %s", sumsName, err, bytes.TrimSpace(out))
	}
	return nil
}
