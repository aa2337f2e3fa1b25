package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// PathRenew has a terminal's key certified again: POST RenewRequest -> RenewAnswer. It
// needs the terminal's certificate, or, once that has ended, the signature of the key that
// renews.
const PathRenew = "/v1/renew"

// RenewRequest asks for another certificate of the key that the terminal enrolled.
type RenewRequest struct {
	Protocol int    `json:"protocol"`
	Terminal string `json:"terminal"`
	CSR      string `json:"csr"` // PEM PKCS#10 with the enrolled key
	// RenewalKey is the public half, PEM, of the key that renews after the end. It is taken
	// where central has none yet, over a certificate that is good.
	RenewalKey string `json:"renewal_key,omitempty"`
	// Signature is that key's over RenewText: base64, ECDSA P-256 over SHA-256, ASN.1; ""
	// over a certificate that is good. It may be sent again by whoever heard it: the
	// certificate is of use to the holder of the enrolled key alone.
	Signature string `json:"signature,omitempty"`
}

// RenewAnswer is the certificate: a new one, or one that was made within the last day.
type RenewAnswer struct {
	Protocol    int    `json:"protocol"`
	Certificate string `json:"certificate"` // PEM
	Time        string `json:"time"`
}

// RenewText is what the key that renews signs. CSR is the request as it is sent.
func RenewText(terminal, csr string) string {
	sum := sha256.Sum256([]byte(csr))
	return fmt.Sprintf("grattoir renew v1\nterminal %s\ncsr %s\n", terminal, hex.EncodeToString(sum[:]))
}
