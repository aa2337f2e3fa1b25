package wire

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// PathTrust gives whom terminals are to believe: GET -> signed note over Trust.Text.
const PathTrust = "/v1/trust"

// maxTrusted bounds each list of a Trust.
const maxTrusted = 32

// Trust is whom terminals are to believe. While a CA or central's key is replaced, both
// are in it, the one that signs now first.
type Trust struct {
	Issued      time.Time
	CAs         []*x509.Certificate // the first certifies
	CentralKeys []string            // public note keys
	SealKeys    []string            // public note keys that may sign manifests, maybe with their last day
}

func (t Trust) content() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cas %d\n", len(t.CAs))
	for _, ca := range t.CAs {
		fmt.Fprintf(&b, "ca %s\n", base64.StdEncoding.EncodeToString(ca.Raw))
	}
	for _, list := range []struct {
		name string
		keys []string
	}{{"central-key", t.CentralKeys}, {"seal-key", t.SealKeys}} {
		fmt.Fprintf(&b, "%ss %d\n", list.name, len(list.keys))
		for _, k := range list.keys {
			fmt.Fprintf(&b, "%s %s\n", list.name, k)
		}
	}
	return b.String()
}

// Text is the canonical text that central signs, with its old key and its new one.
func (t Trust) Text() string {
	return fmt.Sprintf("grattoir trust v1\nissued %s\n%s", FormatTime(t.Issued), t.content())
}

// Mark names what it says, whenever it was signed: 64 hexadecimal digits.
func (t Trust) Mark() string {
	sum := sha256.Sum256([]byte(t.content()))
	return hex.EncodeToString(sum[:])
}

// ParseTrust reads what Text writes, and nothing else.
func ParseTrust(text string) (Trust, error) {
	var t Trust
	lines := strings.Split(text, "\n")
	take := func(name string) (string, error) {
		if len(lines) == 0 {
			return "", fmt.Errorf("trust: %w: it ends before %s", ErrText, name)
		}
		value, ok := strings.CutPrefix(lines[0], name+" ")
		lines = lines[1:]
		if !ok {
			return "", fmt.Errorf("trust: %w: no %s", ErrText, name)
		}
		return value, nil
	}
	list := func(name string) (values []string, err error) {
		count, err := take(name + "s")
		if err != nil {
			return nil, err
		}
		var n int
		if _, err := fmt.Sscanf(count, "%d", &n); err != nil || n < 0 || n > maxTrusted {
			return nil, fmt.Errorf("trust: %w: %ss %.20q", ErrText, name, count)
		}
		for range n {
			value, err := take(name)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		return values, nil
	}
	if _, err := take("grattoir trust"); err != nil {
		return t, err
	}
	issued, err := take("issued")
	if err != nil {
		return t, err
	}
	if t.Issued, err = ParseTime(issued); err != nil {
		return t, fmt.Errorf("trust: %w: %w", ErrText, err)
	}
	cas, err := list("ca")
	if err != nil {
		return t, err
	}
	for _, text := range cas {
		der, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return t, fmt.Errorf("trust: %w: %w", ErrText, err)
		}
		ca, err := x509.ParseCertificate(der)
		if err != nil {
			return t, fmt.Errorf("trust: %w: %w", ErrText, err)
		}
		t.CAs = append(t.CAs, ca)
	}
	if t.CentralKeys, err = list("central-key"); err != nil {
		return t, err
	}
	if t.SealKeys, err = list("seal-key"); err != nil {
		return t, err
	}
	if len(t.CAs) == 0 || len(t.CentralKeys) == 0 || len(text) > MaxAnswer || t.Text() != text {
		return t, fmt.Errorf("trust: %w", ErrText)
	}
	return t, nil
}
