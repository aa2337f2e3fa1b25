package configs

import (
	_ "embed"
	"errors"
	"fmt"
	"reflect"

	"grattoir/validate/money"
	"grattoir/validate/policy"
)

// policyFile is a policy as a person writes it before it is signed. Every limit must be
// there: one that was forgotten would be none. Commissions and result_slips may be left out.
type policyFile struct {
	Version           *string `toml:"version"`
	ValidFrom         *string `toml:"valid_from"` // 2026-12-01
	ValidTo           *string `toml:"valid_to"`   // the last day, "" for no end
	Currency          *string `toml:"currency"`
	ClaimDays         *int    `toml:"claim_days"`
	ShopLimit         *int64  `toml:"shop_limit_minor"`
	ConfirmCashPrize  *int64  `toml:"confirm_cash_prize_minor"`
	ConfirmCashTotal  *int64  `toml:"confirm_cash_total_minor"`
	IdentityPrize     *int64  `toml:"identity_prize_minor"`
	IdentityTotalOver *int64  `toml:"identity_total_over_minor"`
	WeakLimit         *int64  `toml:"weak_limit_minor"`
	AllowanceClaims   *int64  `toml:"allowance_claims"`
	AllowanceMoney    *int64  `toml:"allowance_minor"`
	BookedRisk        *int64  `toml:"booked_risk_minor"`
	BookedRiskParty   *string `toml:"booked_risk_party"` // "" for nobody
	CommissionSale    *int    `toml:"commission_sale" optional:"yes"`
	CommissionPaid    *int    `toml:"commission_paid" optional:"yes"`
	ResultSlips       *string `toml:"result_slips" optional:"yes"`
}

// PolicyExample is the shipped example of a policy to be signed, which a test loads.
//
//go:embed policy.toml
var PolicyExample []byte

// DecodePolicy reads a policy that is to be signed. The errors name file, line and
// column, or the key.
func DecodePolicy(name string, text []byte) (policy.Policy, error) {
	var f policyFile
	if err := Decode(name, text, &f); err != nil {
		return policy.Policy{}, err
	}
	var errs []error
	for v, i := reflect.ValueOf(f), 0; i < v.NumField(); i++ {
		if v.Field(i).IsNil() && v.Type().Field(i).Tag.Get("optional") == "" {
			errs = append(errs, fmt.Errorf("%s: %s is missing: write it, with 0 or \"\" for never, nobody or no end", name, v.Type().Field(i).Tag.Get("toml")))
		}
	}
	if errs != nil {
		return policy.Policy{}, errors.Join(errs...)
	}
	p := policy.Policy{Version: *f.Version, Currency: *f.Currency, ClaimDays: *f.ClaimDays, ShopLimit: money.Amount(*f.ShopLimit),
		ConfirmCashPrize: money.Amount(*f.ConfirmCashPrize), ConfirmCashTotal: money.Amount(*f.ConfirmCashTotal),
		IdentityPrize: money.Amount(*f.IdentityPrize), IdentityTotalOver: money.Amount(*f.IdentityTotalOver), WeakLimit: money.Amount(*f.WeakLimit),
		AllowanceClaims: *f.AllowanceClaims, AllowanceMoney: money.Amount(*f.AllowanceMoney),
		BookedRisk: money.Amount(*f.BookedRisk), BookedRiskParty: *f.BookedRiskParty}
	for _, rate := range []struct{ from, to *int }{{f.CommissionSale, &p.CommissionSale}, {f.CommissionPaid, &p.CommissionPaid}} {
		if rate.from != nil {
			*rate.to = *rate.from
		}
	}
	if f.ResultSlips != nil {
		if p.ResultSlips = policy.ResultSlips(*f.ResultSlips); p.ResultSlips == "" {
			errs = append(errs, fmt.Errorf("%s: result_slips = \"\": leave the line out, and each terminal's configuration says it", name))
		}
	}
	var err error
	if p.ValidFrom, err = policy.ParseDate(*f.ValidFrom); err != nil {
		errs = append(errs, fmt.Errorf("%s: valid_from: %w", name, err))
	}
	if *f.ValidTo != "" {
		if p.ValidTo, err = policy.ParseDate(*f.ValidTo); err != nil {
			errs = append(errs, fmt.Errorf("%s: valid_to: %w", name, err))
		}
	}
	if errs != nil {
		return policy.Policy{}, errors.Join(errs...)
	}
	if err := p.ValidateSigned(); err != nil {
		return policy.Policy{}, fmt.Errorf("%s:\n%w", name, err)
	}
	return p, nil
}
