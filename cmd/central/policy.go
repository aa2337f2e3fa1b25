package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/sync/uplink"
	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/policy"
)

func policyCommand() *cobra.Command {
	return cli.Group("policy", "Sign the limits that terminals pay by, and publish them", policySignCommand(), policyCosignCommand(), policyShowCommand(), policyPublishCommand(), policyListCommand(), policyWithdrawCommand())
}

// policyAnswer is a signed policy in the answers of the three commands.
type policyAnswer struct {
	File              string   `json:"file"`
	SignedBy          []string `json:"signed_by"` // of the keys given
	Version           string   `json:"version"`
	ValidFrom         string   `json:"valid_from"`
	ValidTo           *string  `json:"valid_to"` // null for no end
	Currency          string   `json:"currency"`
	ClaimDays         int      `json:"claim_days"`
	ShopLimit         int64    `json:"shop_limit_minor"`
	ConfirmCashPrize  int64    `json:"confirm_cash_prize_minor"`
	ConfirmCashTotal  int64    `json:"confirm_cash_total_minor"`
	IdentityPrize     int64    `json:"identity_prize_minor"`
	IdentityTotalOver int64    `json:"identity_total_over_minor"`
	WeakLimit         int64    `json:"weak_limit_minor"`
	AllowanceClaims   int64    `json:"allowance_claims"`
	AllowanceMoney    int64    `json:"allowance_minor"`
	BookedRisk        int64    `json:"booked_risk_minor"`
	BookedRiskParty   *string  `json:"booked_risk_party"` // null for nobody
	CommissionSale    int      `json:"commission_sale"`   // hundredths of a percent
	CommissionPaid    int      `json:"commission_paid"`
	ResultSlips       *string  `json:"result_slips"` // null where each terminal's configuration says it
}

func answerPolicy(file string, by []string, p policy.Policy) policyAnswer {
	a := policyAnswer{File: file, SignedBy: by, Version: p.Version, ValidFrom: p.ValidFrom.String(), Currency: p.Currency, ClaimDays: p.ClaimDays,
		ShopLimit: int64(p.ShopLimit), ConfirmCashPrize: int64(p.ConfirmCashPrize), ConfirmCashTotal: int64(p.ConfirmCashTotal),
		IdentityPrize: int64(p.IdentityPrize), IdentityTotalOver: int64(p.IdentityTotalOver), WeakLimit: int64(p.WeakLimit),
		AllowanceClaims: p.AllowanceClaims, AllowanceMoney: int64(p.AllowanceMoney), BookedRisk: int64(p.BookedRisk), CommissionSale: p.CommissionSale, CommissionPaid: p.CommissionPaid}
	if !p.ValidTo.IsZero() {
		a.ValidTo = new(p.ValidTo.String())
	}
	if p.BookedRiskParty != "" {
		a.BookedRiskParty = &p.BookedRiskParty
	}
	if p.ResultSlips != "" {
		a.ResultSlips = new(string(p.ResultSlips))
	}
	return a
}

// print writes the policy for people.
func (a policyAnswer) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sum := func(minor int64) string {
		return money.Text(money.Amount(minor), a.Currency, money.English, money.Receipt)
	}
	from := func(word string, minor int64) string {
		if minor == 0 {
			return "never"
		}
		return word + " " + sum(minor)
	}
	days, allowance, risk := "from "+a.ValidFrom+" on", "no bound of its own", "never"
	if a.ValidTo != nil {
		days = "from " + a.ValidFrom + " to " + *a.ValidTo
	}
	if a.AllowanceClaims > 0 || a.AllowanceMoney > 0 {
		claims := "any number of claims"
		if a.AllowanceClaims > 0 {
			claims = fmt.Sprintf("%d claims", a.AllowanceClaims)
		}
		if allowance = claims; a.AllowanceMoney > 0 {
			allowance += ", " + sum(a.AllowanceMoney)
		}
	}
	if a.BookedRiskParty != nil {
		risk = "up to " + sum(a.BookedRisk) + ", borne by " + *a.BookedRiskParty
	}
	fmt.Fprintf(w, "%s:\n", a.File)
	fmt.Fprintf(w, "  Policy\t%s, %s\n", a.Version, days)
	for _, by := range a.SignedBy {
		fmt.Fprintf(w, "  Signed by\t%s\n", by)
	}
	fmt.Fprintf(w, "  A shop pays\tup to %s\n", sum(a.ShopLimit))
	fmt.Fprintf(w, "  Cash confirmed\tone prize: %s; a batch: %s\n", from("from", a.ConfirmCashPrize), from("from", a.ConfirmCashTotal))
	fmt.Fprintf(w, "  Identity\tone transaction: %s; several prizes: %s\n", from("from", a.IdentityPrize), from("over", a.IdentityTotalOver))
	fmt.Fprintf(w, "  Claim period\t%d days from the closing notice\n", a.ClaimDays)
	fmt.Fprintf(w, "  Short secrets\tpaid without central: %s\n", from("up to", a.WeakLimit))
	fmt.Fprintf(w, "  Allowance\t%s\n", allowance)
	fmt.Fprintf(w, "  Booked risk\t%s\n", risk)
	fmt.Fprintf(w, "  Commission\t%d.%02d %% of sales, %d.%02d %% of prizes paid\n", a.CommissionSale/100, a.CommissionSale%100, a.CommissionPaid/100, a.CommissionPaid%100)
	fmt.Fprintf(w, "  Slips of checks\t%s\n", a.slips())
	return w.Flush()
}

// slips words for which checks a slip is printed.
func (a policyAnswer) slips() string {
	if a.ResultSlips == nil {
		return "as each terminal's configuration says"
	}
	switch policy.ResultSlips(*a.ResultSlips) {
	case policy.SlipsEach:
		return "with every check"
	case policy.SlipsAsked:
		return "when asked for, of every ticket"
	default:
		return "when asked for, of tickets that the payment centre must see"
	}
}

func policySignCommand() *cobra.Command {
	var in, key, out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sign --in FILE.toml --key FILE --out FILE.policy",
		Short: "Sign a policy that a person has written",
		Long: `Read a policy, refuse it where a key is missing or contradicts another, and sign its
canonical text. Terminals take it when it is signed by as many of their keys as they ask
for, the same keys as for manifests, and pay by the newest version whose days hold.
configs/policy.toml is an example. A signed policy is never changed: another one has a
version of its own.`,
		Example: `  central policy sign --in policy.toml --key keys/lottery.key --out 2026-1.policy`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch "" {
			case in:
				return cli.Usagef("--in is missing: the policy to be signed, as configs/policy.toml")
			case key:
				return cli.Usagef("--key is missing: the secret key that signs")
			case out:
				return cli.Usagef("--out is missing: the file of the signed policy")
			}
			text, err := cli.ReadBounded(in, policy.MaxText)
			if err != nil {
				return err
			}
			p, err := configs.DecodePolicy(in, text)
			if err != nil {
				return cli.Exit(cli.Refused, err)
			}
			signer, err := readSigner(key)
			if err != nil {
				return err
			}
			signed, err := note.Sign(&note.Note{Text: p.Text()}, signer)
			if err != nil {
				return fmt.Errorf("policy %s: %w", p.Version, err)
			}
			if err := writeNew(out, signed, 0o644); err != nil {
				return err
			}
			a := answerPolicy(out, []string{signerName(signer)}, p)
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			return a.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&in, "in", "", "`file` of the policy as a person wrote it")
	cmd.Flags().StringVar(&key, "key", "", "`file` of the secret key that signs")
	cmd.Flags().StringVar(&out, "out", "", "`file` of the signed policy, which must not exist")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// signerName is a key as signatures carry it.
func signerName(s note.Signer) string { return fmt.Sprintf("%s+%08x", s.Name(), s.KeyHash()) }

func policyCosignCommand() *cobra.Command {
	var key, public string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cosign FILE.policy --key FILE --pub FILE",
		Short: "Add a second person's signature to a signed policy",
		Long: `Check the first signature, show what it signed, and add one of another key. Terminals
whose configuration wants two signatures take no policy with one.`,
		Example: `  central policy cosign 2026-1.policy --key keys/second.key --pub keys/lottery.pub`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" || public == "" {
				return cli.Usagef("--key and --pub are needed: the second signer's secret key and the first one's public key")
			}
			signer, err := readSigner(key)
			if err != nil {
				return err
			}
			a, err := cosignPolicy(args[0], signer, public)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			return a.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`file` of the second signer's secret key")
	cmd.Flags().StringVar(&public, "pub", "", "`file` of the first signer's public key")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

func cosignPolicy(path string, signer note.Signer, public string) (policyAnswer, error) {
	ring, err := readRing([]string{public})
	if err != nil {
		return policyAnswer{}, err
	}
	signed, p, by, err := readPolicy(path, ring)
	if err != nil {
		return policyAnswer{}, err
	}
	_, err = note.Open(signed, note.VerifierList()) // no key is known: every signature comes with the error
	var all *note.UnverifiedNoteError
	if !errors.As(err, &all) {
		return policyAnswer{}, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range all.Note.UnverifiedSigs {
		if s.Name == signer.Name() && s.Hash == signer.KeyHash() {
			return policyAnswer{}, fmt.Errorf("%s is signed with this key already: a second signature is another person's", path)
		}
	}
	if signed, err = note.Sign(all.Note, signer); err != nil {
		return policyAnswer{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := errors.Join(uplink.WriteWhole(path, signed), os.Chmod(path, 0o644)); err != nil {
		return policyAnswer{}, err
	}
	return answerPolicy(path, append(by, signerName(signer)), p), nil
}

// readRing makes a key ring of files of public keys, any one of which is enough.
func readRing(paths []string) (manifest.Keys, error) {
	if len(paths) == 0 {
		return manifest.Keys{}, cli.Usagef("--key is missing: the public key of who signed it")
	}
	var public []string
	for _, path := range paths {
		key, err := cli.ReadPublicKey(path)
		if err != nil {
			return manifest.Keys{}, err
		}
		public = append(public, key)
	}
	return manifest.NewKeys(1, public...)
}

// readPolicy reads a signed policy and who of the ring signed it.
func readPolicy(path string, ring manifest.Keys) (signed []byte, p policy.Policy, by []string, err error) {
	if signed, err = cli.ReadBounded(path, policy.MaxText); err != nil {
		return nil, p, nil, err
	}
	text, by, err := ring.Open(signed)
	if err == nil {
		p, err = policy.Parse(text)
	}
	if err != nil {
		return nil, policy.Policy{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	return signed, p, by, nil
}

// setAnswer is what several policies come to together.
type setAnswer struct {
	Policies []policyAnswer `json:"policies"`
	Findings []string       `json:"findings"` // gaps and overlaps of their days
}

func policyShowCommand() *cobra.Command {
	var keys []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show FILE.policy... --key PUB",
		Short: "Verify signed policies and show what they say",
		Long: `Verify the signature of each policy and show its limits and days. Of several files the
days on which none holds, and those on which two do, are named; then the answer is 3 for
a person to look at them, but for the days after the last one.`,
		Example: `  central policy show 2026-1.policy 2026-2.policy --key keys/lottery.pub`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ring, err := readRing(keys)
			if err != nil {
				return err
			}
			a, odd := setAnswer{Findings: []string{}}, false
			var set policy.Set
			for _, path := range args {
				_, p, by, err := readPolicy(path, ring)
				if err == nil {
					err = set.Accept(p)
				}
				if err != nil {
					return err
				}
				a.Policies = append(a.Policies, answerPolicy(path, by, p))
			}
			for _, f := range set.Findings() {
				a.Findings = append(a.Findings, f.String())
				odd = odd || f.Kind == policy.Overlap || !f.To.IsZero()
			}
			if err := a.write(cmd.OutOrStdout(), asJSON); err != nil || !odd {
				return err
			}
			return cli.Exit(cli.Person, nil)
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "`file` of a public key that may have signed; may be given several times")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

func (a setAnswer) write(out io.Writer, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, a)
	}
	for _, p := range a.Policies {
		if err := p.print(out); err != nil {
			return err
		}
	}
	for _, f := range a.Findings {
		if _, err := fmt.Fprintln(out, f); err != nil {
			return err
		}
	}
	return nil
}
