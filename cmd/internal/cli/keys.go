package cli

import (
	"fmt"
	"strings"

	"grattoir/validate/manifest"
)

// maxPublicKey bounds the file of a public key, which is one line.
const maxPublicKey = 4 << 10

// ReadPublicKey reads the file of a public key that signs manifests. A secret key and
// a claim key are named as what they are, and nothing of them is shown.
func ReadPublicKey(path string) (string, error) {
	raw, err := ReadBounded(path, maxPublicKey)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(raw))
	switch {
	case strings.HasPrefix(text, "PRIVATE+"):
		return "", fmt.Errorf("%s is a SECRET key: take it off this machine and name its .pub", path)
	case strings.HasPrefix(text, "grattoir-claim-key"):
		return "", fmt.Errorf("%s is a claim key, not one that signs manifests", path)
	}
	if _, err := manifest.ParseKey(text); err != nil {
		return "", fmt.Errorf("%s is no public key in note format: take the .pub that central key new made: %w", path, err)
	}
	return text, nil
}
