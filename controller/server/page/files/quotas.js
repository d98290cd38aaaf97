// Quotas of the namespaces: used amounts against limits.
import {shareBar} from './card_bars.js';
import {badge, el, fill} from './dom.js';
import {percent} from './format.js';

function limitLine(limit, alertPercent) {
  const near = limit.hard > 0 ? 100 * limit.used / limit.hard >= alertPercent : limit.used > 0;
  const share = percent(limit.used, limit.hard);
  return el('div', {class: 'amount'}, el('span', {}, `${limit.key}: ${limit.text} (${share}) `, near ? badge('near the limit', 'trouble') : ''),
            shareBar(near ? 'trouble' : 'core', `${limit.key}: ${share} used`, limit.used, limit.hard));
}

function quotaSection(quota) {
  const wrong = quota.conditions.filter((each) => each.status === 'True' && each.type !== 'Valid' && each.message);
  const perClaim = Object.entries(quota.perClaim).map(([key, value]) => `${key} ${value}`).join(', ');
  const scope = [...quota.classes.map((each) => `class ${each}`), ...quota.models.map((each) => `model ${each}`)].join(', ');
  return el('section', {class: 'card'}, el('h2', {}, quota.quota),
            quota.limits.map((limit) => limitLine(limit, quota.alertPercent)),
            perClaim ? el('p', {}, `Each claim: at most ${perClaim}`) : '',
            scope ? el('p', {}, `Counts only ${scope}`) : '',
            el('p', {class: 'muted'}, quota.enforcement === 'Refuse' ? 'Claims beyond it are refused.' : 'Claims beyond it wait.'),
            wrong.map((each) => el('p', {class: 'muted'}, `${each.type}: ${each.message}`)));
}

export function quotasView(cluster) {
  const body = el('div');
  return {
    title: 'Quotas',
    element: body,
    update() {
      const quotas = [...cluster.quotas.values()].sort((a, b) => (a.quota < b.quota ? -1 : 1));
      fill(body, quotas.length === 0 ? [el('p', {}, 'There are no quotas.')] : [el('div', {class: 'cards'}, quotas.map(quotaSection))]);
    },
  };
}
