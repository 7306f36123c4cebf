//! Software bill of materials: SPDX 2.3 as JSON.

use serde_json::{Value, json};

use super::packages::Package;

/// The bill of an image. Its date is fixed, so that the same packages give the same text.
pub(crate) fn spdx(packages: &[Package], image: &str) -> String {
    let described: Vec<Value> =
        packages.iter().enumerate().map(|(index, package)| describe(index, package)).collect();
    let depends = packages.iter().enumerate().flat_map(|(index, package)| {
        package.dependencies.iter().map(move |on| {
            json!({"spdxElementId": id(index), "relationshipType": "DEPENDS_ON", "relatedSpdxElement": id(*on)})
        })
    });
    let first = json!({"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": id(0)});
    let relationships: Vec<Value> = std::iter::once(first).chain(depends).collect();
    let version = packages.first().map_or("0", |kai| kai.version.as_str());
    let bill = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": image,
        "documentNamespace": format!("urn:kai-scheduler:sbom:{version}"),
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: cargo-xtask-image"]},
        "packages": described,
        "relationships": relationships,
    });
    format!("{bill:#}\n")
}

fn id(index: usize) -> String {
    format!("SPDXRef-Package-{index}")
}

fn describe(index: usize, package: &Package) -> Value {
    let Package { name, version, licence, kind, .. } = package;
    // Older crates separate alternatives by a slash.
    let licence = licence.replace('/', " OR ");
    let licence = if licence.is_empty() { "NOASSERTION".to_owned() } else { licence };
    json!({
        "SPDXID": id(index),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": format!("pkg:{kind}/{name}@{version}"),
        }],
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::image::packages;

    #[test]
    fn bill_names_every_linked_crate_with_its_licence_and_no_test_crate() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let shipped = packages::shipped(root, &kai_image::Platform::ALL).expect("packages");
        let bill = spdx(&shipped, "kai:1");
        assert_eq!(bill, spdx(&shipped, "kai:1"), "the bill is the same every time");
        let bill: Value = serde_json::from_str(&bill).expect("JSON");
        let listed = bill["packages"].as_array().expect("packages");
        assert_eq!(listed[0]["name"], "kai");
        let names: Vec<&str> = listed.iter().filter_map(|one| one["name"].as_str()).collect();
        for crate_name in ["kube-client", "nvml-wrapper", "kai-core", "rustls"] {
            assert!(names.contains(&crate_name), "{crate_name} is missing");
        }
        assert!(!names.contains(&"proptest") && !names.contains(&"kai-testenv"), "{names:?}");
        let unlicensed: Vec<&Value> =
            listed.iter().filter(|one| one["licenseDeclared"] == "NOASSERTION").collect();
        assert!(unlicensed.is_empty(), "{unlicensed:?}");
    }
}
