package uplink

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
)

// ErrEnrolFile means that a file is no enrolment file of the central that is expected.
var ErrEnrolFile = errors.New("not an enrolment file of this central")

// FileOptions are what EnrolFromFile needs.
type FileOptions struct {
	Text  []byte // the file, at most wire.MaxEnrolFile bytes
	Dir   string // folder of the identity, made when it is missing
	Again bool   // replace an identity that is there
	// Key is central's public note key, where the device or its technician has it from
	// elsewhere. With "" whoever could write the file is believed: the key in it signs it.
	Key string
}

// EnrolFromFile makes the device's key and an identity out of an enrolment file, with no
// network. The identity is Waiting: it checks tickets, and an Uplink that runs with it has
// central certify its key as soon as central can be reached. The errors include
// ErrEnrolFile and ErrEnrolled.
func EnrolFromFile(o FileOptions) (Identity, error) {
	f, err := openEnrolFile(o.Text, o.Key)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrEnrolFile, err)
	}
	base, err := parseURL(f.Central)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrEnrolFile, err)
	}
	if err := vacant(o.Dir, o.Again); err != nil {
		return Identity{}, err
	}
	w, err := newRequest()
	if err != nil {
		return Identity{}, err
	}
	stored := identityFile{Format: identityFormat, Terminal: f.Terminal, Central: base.String(), Key: w.keyPEM, CA: certificatePEM(f.CA),
		CentralKey: f.CentralKey, SealKeys: f.SealKeys, ClaimKey: f.ClaimKey, Code: f.Code, CSR: w.csrPEM, Issued: f.Issued.UTC().Format(time.RFC3339)}
	id, err := stored.identity()
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrEnrolFile, err)
	}
	return id, w.store(&id, o.Dir)
}

// openEnrolFile verifies the file, under the key that it names unless another is given.
func openEnrolFile(text []byte, key string) (wire.EnrolFile, error) {
	if len(text) > wire.MaxEnrolFile {
		return wire.EnrolFile{}, fmt.Errorf("more than %d bytes", wire.MaxEnrolFile)
	}
	var unverified *note.UnverifiedNoteError
	if _, err := note.Open(text, note.VerifierList()); !errors.As(err, &unverified) {
		return wire.EnrolFile{}, fmt.Errorf("it bears no signature: %w", err)
	}
	f, err := wire.ParseEnrolFile(unverified.Note.Text)
	if err != nil {
		return f, err
	}
	if key = strings.TrimSpace(key); key != "" && key != f.CentralKey {
		return f, errors.New("it is of a central with another key than the one given")
	}
	v, err := note.NewVerifier(f.CentralKey)
	if err == nil {
		_, err = note.Open(text, note.VerifierList(v))
	}
	return f, err
}

// enrolWaiting has central certify the key of a waiting identity. The lanes begin after it.
func (u *Uplink) enrolWaiting(ctx context.Context) (rest, error) {
	me := u.me()
	if !me.Waiting() {
		return rest{}, errDone
	}
	renewal, err := readRenewal(me.dir)
	if err != nil {
		return rest{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	w := request{keyPEM: me.file.Key, csrPEM: me.file.CSR, renewalPEM: renewal}
	answer, err := w.ask(ctx, newClient(u.base, u.opt.Dial, me.tlsConfig(u.tlsTime)), me.file.Code)
	if err != nil {
		return rest{}, err
	}
	id, err := w.identity(me.Central, answer)
	if err != nil {
		return rest{}, err
	}
	if id.Terminal != me.Terminal || !id.cas[0].Equal(me.cas[0]) || id.CentralKey != me.CentralKey || id.ClaimKey != me.ClaimKey {
		return rest{}, fmt.Errorf("%w: it certifies another terminal, or names other keys than the enrolment file", ErrAnswer)
	}
	id.dir = me.dir
	if err := u.become(id); err != nil {
		return rest{}, err
	}
	u.opt.Log.Info("enrolled with the file from the card", "terminal", id.Terminal, "expires", id.Expires())
	return rest{}, errDone
}

// become stores an identity that takes the place of the present one, and goes on with it
// on new connections: those that are open show the earlier certificate.
func (u *Uplink) become(id Identity) error {
	if err := id.store(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrStore, filepath.Join(id.dir, identityName), err)
	}
	u.identity.Store(&id)
	u.link.Swap(newClient(u.base, u.opt.Dial, id.tlsConfig(u.tlsTime))).close()
	return nil
}
