package uplink

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"grattoir/sync/wire"
)

// renewLook is the longest time between two looks at the certificate's age: the clock may
// be set meanwhile.
const renewLook = 6 * time.Hour

// renew has the certificate renewed at two thirds of its life, spread over some days so
// that a country's terminals do not come at once, and after its end by the key that
// renews. A device that was off for a year comes back by itself.
func (u *Uplink) renew(ctx context.Context) (rest, error) {
	me := u.me()
	if me.leaf == nil || me.dir == "" {
		return rest{after: renewLook}, nil
	}
	if done, err := u.learn(ctx, me); done || err != nil {
		return rest{now: true}, err
	}
	if u.ended.Load() { // central said so, whatever this clock says
		return u.renewed(ctx, me, true)
	}
	now, _ := u.tlsTime()
	life := me.leaf.NotAfter.Sub(me.leaf.NotBefore)
	due := me.leaf.NotBefore.Add(time.Duration((0.65 + 0.04*u.spread) * float64(life)))
	if wait := due.Sub(now); wait > 0 && me.leaf.CheckSignatureFrom(me.cas[0]) == nil { // else its CA is replaced
		return rest{after: min(wait, renewLook), wake: [2]<-chan struct{}{u.lapsed}}, nil
	}
	return u.renewed(ctx, me, now.After(me.leaf.NotAfter))
}

// renewed asks for the certificate and goes on with it.
func (u *Uplink) renewed(ctx context.Context, me Identity, late bool) (rest, error) {
	q, err := me.renewRequest(late)
	if err != nil {
		return rest{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	c := u.client()
	if late { // an ended certificate would end the handshake
		bare := me
		bare.leaf = nil
		c = newClient(u.base, u.opt.Dial, bare.tlsConfig(u.tlsTime))
		defer c.close()
	}
	var a wire.RenewAnswer
	if err := c.post(ctx, wire.PathRenew, q, &a); err != nil {
		return rest{}, err
	}
	file := me.file
	file.Certificate, file.LeafCA = a.Certificate, ""
	id, err := file.identity()
	if err != nil {
		return rest{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	id.dir = me.dir
	if err := u.become(id); err != nil {
		return rest{}, err
	}
	u.ended.Store(false)
	u.opt.Log.Info("certificate renewed", "expires", id.Expires(), "late", late)
	return rest{after: time.Minute}, nil
}

// errEnded means that central does not take the certificate any more, because of its date.
var errEnded = errors.New("the terminal's certificate has ended")

// heedEnd has the certificate renewed when central says that it has ended.
func (u *Uplink) heedEnd(name Lane, err error) {
	e, is := errors.AsType[*wire.Error](err)
	if name != LaneRenew && (errors.Is(err, errEnded) || is && e.Kind == wire.KindExpired) {
		u.ended.Store(true)
		signal(u.lapsed)
	}
}

// renewRequest asks for another certificate of the device's key. A device that has no key
// that renews makes one now.
func (i Identity) renewRequest(late bool) (wire.RenewRequest, error) {
	q := wire.RenewRequest{Protocol: wire.Protocol, Terminal: i.Terminal}
	private, err := readRenewal(i.dir)
	if err == nil && private == "" && !late {
		private, err = makeRenewal(i.dir)
	}
	if err != nil {
		return q, err
	}
	if private == "" {
		return q, errors.New("the certificate has ended, and this terminal has no key that renews it: run terminalctl enrol --again with a new code")
	}
	if q.CSR, err = makeCSR(i.key); err != nil {
		return q, err
	}
	if q.RenewalKey, err = publicPEM(private); err != nil || !late {
		return q, err
	}
	key, err := parseKey(private)
	if err != nil {
		return q, err
	}
	sum := sha256.Sum256([]byte(wire.RenewText(i.Terminal, q.CSR)))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	q.Signature = base64.StdEncoding.EncodeToString(signature)
	return q, err
}

func makeRenewal(dir string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	text, err := keyPEM(key)
	if err != nil {
		return "", err
	}
	return text, WriteWhole(filepath.Join(dir, renewalName), []byte(text))
}

// readRenewal reads the key that renews after the end, "" where there is none. Its errors
// show nothing of it.
func readRenewal(dir string) (string, error) {
	path := filepath.Join(dir, renewalName)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIdentityFile))
	if err == nil {
		_, err = parseKey(string(text))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return string(text), nil
}
