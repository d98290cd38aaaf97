"""Checks of the page in a real cluster, for tests/cluster/rbac_test.py: the page requires a token and shows changes of claims."""
import json
import os

import tools


def browser_of(bin_dir):
    """Returns a browser; None, after printing the reason, if a tool is missing."""
    try:
        tools.client(os.path.realpath(os.path.join(bin_dir, "..", "page_tools")))
    except SystemExit as left_out:
        if left_out.code != tools.SKIPPED:
            raise
        return None
    import browser  # needs the client
    if not browser.chromium():
        print("the page is left out: chromium is not installed")
        return None
    return browser.Browser()


def enter(tab, token):
    tab.until("document.activeElement.type === 'password' && document.activeElement.value === ''")
    tab.type(token)
    tab.press("Enter", 13, "\r")


def shown(report, bin_dir, address, tokens, cards, change):
    """tokens: the first lacks the right to get ElasticGPUs, the second has it. change() creates a claim that can be bound, and returns
    NAMESPACE/NAME."""
    chromium = browser_of(bin_dir)
    if not chromium:
        return
    try:
        nobody, reader = tokens
        tab = chromium.tab()
        tab.shape()
        tab.open(f"http://{address}/#/claims")
        report.check("without a token the page asks for one", tab.until("document.querySelector('input[type=password]') !== null"), tab.text()[:400])
        enter(tab, nobody)
        report.check("it shows why the API server refuses a token", tab.until("document.body.innerText.includes('elasticgpus')"), tab.text()[:400])
        enter(tab, reader)
        report.check("with the right token it is live", tab.until("document.getElementById('live').textContent === 'Live'"), tab.text()[:400])
        key = change()
        row = f"[...document.querySelectorAll('tr')].some((row) => row.innerText.includes({json.dumps(key)}) && row.innerText.includes('Bound'))"
        report.check("a claim of the cluster appears and becomes Bound", tab.until(row, 60), tab.text()[:600])
        tab.evaluate("location.hash = '#/nodes'")
        report.check("it shows the cluster's cards", tab.until(f"document.body.innerText.replace(/\\s+/g, ' ').includes('Cards {cards}')"), tab.text()[:400])
        problems = [each for each in tab.problems if "status of 401" not in each and "status of 403" not in each]
        report.check("the console has no errors", not problems, problems[:5])
    finally:
        chromium.close()
